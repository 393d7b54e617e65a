import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { Person } from "../person.ts";

type Kept = { id: string; body: string };
type Outgoing = Kept & { type: string };

/** Tables that can be walked by their hidden row number. */
const WALKED = [
  "message_reactions",
  "chat_connections",
  "rtc_connections",
  "usage_sessions",
  "webhook_events",
] as const;
export type WalkedTable = (typeof WALKED)[number];

export type QueueTraces = ReturnType<typeof queueTraces>;

/** Where answers and events that wait to be sent hold a person, and how large tables are walked in small steps. */
export function queueTraces({ $client: client }: Db) {
  const bounds = new Map(
    WALKED.map((table) => [
      table,
      reading(() =>
        client.prepare<{ last: number | null }, [number, number]>(
          `SELECT max(id) AS last FROM (SELECT rowid AS id FROM ${table} WHERE rowid > ? ORDER BY rowid LIMIT ?)`,
        ),
      ),
    ]),
  );
  const events = reading(() =>
    client.prepare<Outgoing, [number, number, string, string, string]>(
      `SELECT id, type, body FROM webhook_events
       WHERE seq > ? AND seq <= ? AND project_id = ? AND environment = ? AND instr(body, ?) > 0`,
    ),
  );
  const removeEvent = changing(() => client.prepare("DELETE FROM webhook_events WHERE id = ?"));
  const rewriteEvent = changing(() => client.prepare("UPDATE webhook_events SET body = ?2 WHERE id = ?1"));
  const answers = reading(() =>
    client.prepare<Kept, [string, number]>("SELECT id, body FROM idempotency_keys WHERE id > ? ORDER BY id LIMIT ?"),
  );
  const removeAnswer = changing(() => client.prepare("DELETE FROM idempotency_keys WHERE id = ?"));
  const owner = (table: string) =>
    reading(() =>
      client.prepare<Tenant, [string]>(`SELECT project_id AS projectId, environment FROM ${table} WHERE public_id = ?`),
    );
  const ownerOfConversation = owner("conversations");
  const ownerOfStream = owner("live_streams");

  return {
    /** The number of the last of the next rows; null at the end. */
    bound: (table: WalkedTable, after: number, limit: number): number | null =>
      bounds.get(table)?.get(after, limit)?.last ?? null,

    events: ({ projectId, environment, userId }: Person, after: number, until: number): Outgoing[] =>
      events.all(after, until, projectId, environment, JSON.stringify(userId)),
    removeEvent: (unit: Unit, id: string) => void removeEvent.run(unit, id),
    rewriteEvent: (unit: Unit, id: string, body: string) => void rewriteEvent.run(unit, id, body),

    /** Answers that a repeated request would get again, whoever's they are. */
    answers: (after: string, limit: number): Kept[] => answers.all(after, limit),
    removeAnswer: (unit: Unit, id: string) => void removeAnswer.run(unit, id),
    ownerOf: (publicId: string): Tenant | null => ownerOfConversation.get(publicId) ?? ownerOfStream.get(publicId),
  };
}
