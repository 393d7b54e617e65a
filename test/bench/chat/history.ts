import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase } from "../../../src/kernel/db/open.ts";
import { ChatChild } from "../../features/chat/chat-child.ts";
import { median } from "../harness/report.ts";

type HistoryCost = { smallMs: number; largeMs: number };

const SIZES = { small: 1000, large: 1_000_000 };
const PAGES = 150;

/** A page of 100 from anywhere in a short and in a long conversation, over HTTP. */
export async function historyCost(): Promise<HistoryCost> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-history-"));
  try {
    const first = await ChatChild.start(dataDir);
    for (const name of Object.keys(SIZES)) await first.call("POST", "/v1/chat/conversations", { name });
    await first.kill();
    fill(join(dataDir, "stoa.db"));

    const child = await ChatChild.start(dataDir, first.key);
    const times: Record<keyof typeof SIZES, number[]> = { small: [], large: [] };
    for (let i = 0; i < PAGES + 50; i += 1) {
      // In turn, so that whatever else the machine does falls on both.
      for (const [name, size] of Object.entries(SIZES) as [keyof typeof SIZES, number][]) {
        const from = 150 + Math.floor(Math.random() * (size - 150));
        const cursor = Buffer.from(JSON.stringify(["m", from])).toString("base64url");
        const at = performance.now();
        const page = await child.call("GET", `/v1/chat/conversations/${name}/messages?limit=100&before=${cursor}`);
        if (page.data.length !== 100) throw new Error("not a whole page");
        if (i >= 50) times[name].push(performance.now() - at);
      }
    }
    await child.kill();
    return { smallMs: median(times.small), largeMs: median(times.large) };
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** Rows as the server writes them, without the hour that sending a million messages would take. */
function fill(path: string): void {
  const { $client: db } = openDatabase(path, { durability: "OFF" });
  for (const [name, size] of Object.entries(SIZES)) {
    const { id } = db.query<{ id: string }, [string]>("SELECT id FROM conversations WHERE name = ?").get(name) ?? {
      id: "",
    };
    db.run(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
       INSERT INTO messages (public_id, conversation_id, seq, ordinal, sender_id, type, text, created_at, updated_at)
       SELECT 'msg_' || substr(?1, -12) || printf('%012d', i), ?1, i, i, 'user' || (i % 50), 'text',
         'message number ' || i || ', about as long as people write', 1767225600000 + i, 1767225600000 + i FROM n`,
      [id, size],
    );
    db.run(
      `INSERT INTO conversation_events (conversation_id, seq, type, at, message_id)
       SELECT conversation_id, seq, 'message', created_at, public_id FROM messages WHERE conversation_id = ?`,
      [id],
    );
    db.run("UPDATE conversations SET last_seq = ?2, last_ordinal = ?2, message_count = ?2 WHERE id = ?1", [id, size]);
  }
  db.close();
}
