import { join } from "node:path";
import { indexEntry } from "../../../src/features/chat/search/search-words.ts";
import { openDatabase } from "../../../src/kernel/db/open.ts";

export const ZOE = "zoe.erasable@example";
export const WORD = "heliotrope";
/** One in this many messages is hers. */
export const EVERY = 50;

const START = 1_767_225_600_000;
const IN_ONE_GO = 50_000;

/** Rows as the server writes them, without the hour that sending a million messages would take. */
export function fillHistory(dataDir: string, conversationIds: string[], messages: number): void {
  const { $client: db } = openDatabase(join(dataDir, "stoa.db"), { durability: "OFF" });
  const rowOf = db.query<{ id: string; last: number }, [string]>(
    "SELECT id, max(last_seq, last_ordinal) AS last FROM conversations WHERE public_id = ?",
  );
  const rows = conversationIds.map((publicId) => rowOf.get(publicId) ?? { id: "", last: 0 });
  const share = Math.ceil(messages / rows.length);
  for (const { id, last } of rows) {
    db.run(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
       INSERT INTO messages (public_id, conversation_id, seq, ordinal, sender_id, type, text, created_at, updated_at)
       SELECT 'msg_' || substr(?1, -12) || printf('%012d', i), ?1, ?3 + i, ?3 + i,
         iif(i % ${EVERY} = 7, '${ZOE}', 'user' || (i % 40)), 'text',
         iif(i % ${EVERY} = 7, '${WORD} number ' || i || ' of a person', 'message number ' || i || ', about as long as people write'),
         ${START} + i, ${START} + i FROM n`,
      [id, share, last],
    );
    db.run(
      `INSERT INTO conversation_events (conversation_id, seq, type, at, message_id)
       SELECT conversation_id, seq, 'message', created_at, public_id FROM messages WHERE conversation_id = ?1 AND seq > ?2`,
      [id, last],
    );
    // She likes what others write, too.
    db.run(
      `INSERT INTO message_reactions (message_id, emoji, user_id, created_at)
       SELECT id, '🌻', '${ZOE}', ${START} FROM messages WHERE conversation_id = ?1 AND ordinal % 100 = 1`,
      [id],
    );
    db.run("UPDATE messages SET reaction_count = 1 WHERE conversation_id = ?1 AND ordinal % 100 = 1", [id]);
    db.run(
      `UPDATE conversations SET last_seq = ?3 + ?2, last_ordinal = ?3 + ?2, message_count = message_count + ?2,
       reaction_count = (SELECT count(*) FROM messages WHERE conversation_id = ?1 AND reaction_count > 0) WHERE id = ?1`,
      [id, share, last],
    );
  }
  index(db);
  db.run("PRAGMA wal_checkpoint(TRUNCATE)");
  db.close();
}

/** Indexes like the server does, in larger batches. */
function index(db: ReturnType<typeof openDatabase>["$client"]): void {
  type Row = { id: number; conversationId: string; text: string };
  const page = db.query<Row, [number]>(
    `SELECT id, conversation_id AS conversationId, text FROM messages
     WHERE id > ? AND seq = ordinal AND text IS NOT NULL ORDER BY id LIMIT ${IN_ONE_GO}`,
  );
  const insert = db.query("INSERT INTO message_search (rowid, text) VALUES (?, ?)");
  for (let after = 0; ; ) {
    const rows = page.all(after);
    if (rows.length === 0) return;
    db.transaction(() => {
      for (const { id, conversationId, text } of rows) insert.run(id, indexEntry(conversationId, text).text);
    })();
    after = rows.at(-1)?.id ?? after;
  }
}
