import { Database } from "bun:sqlite";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import type { Received } from "../../features/webhooks/receiver.ts";
import type { ChatUser, Sent } from "./chat-user.ts";
import type { Made, RestUser } from "./rest-user.ts";

type ChatHistory = Pick<ChatUser, "name" | "firstSeq" | "seen" | "sent">;
type RestHistory = Pick<RestUser, "sent" | "rooms" | "closedRooms" | "rtcTokens" | "conversations" | "streams">;
export type Histories = {
  chat: readonly ChatHistory[];
  rest: readonly RestHistory[];
  received: readonly Pick<Received, "headers" | "body">[];
};
type Row = Record<string, string | number | null>;

/** Compares what clients were told with the database of a stopped server. Each returned line is a broken guarantee. */
export function brokenPromises(dataDir: string, histories: Histories, webhookSecret: string): string[] {
  const db = new Database(join(dataDir, "stoa.db"), { readonly: true });
  const rows = (sql: string) => db.query<Row, []>(sql).all();
  const stored = messagesByClientId(rows);
  const everySent = [...histories.chat, ...histories.rest].map(({ sent }) => sent);
  try {
    return [
      ...integrity(rows),
      ...everySent.flatMap((sent) => sentProblems(sent, stored)),
      ...eventProblems(rows),
      ...histories.chat.flatMap((user) => seenProblems(user, rows)),
      ...histories.rest.flatMap((user) => madeProblems(user, rows)),
      ...webhookProblems(histories.received, everySent.flat(), rows, webhookSecret),
    ];
  } finally {
    db.close();
  }
}

/** Webhook events that have not arrived, or whose arrival the server has not noted. */
export function undelivered(dataDir: string, received: Histories["received"]): number {
  const db = new Database(join(dataDir, "stoa.db"), { readonly: true });
  const arrived = new Set(received.map(({ headers }) => headers.get("svc-event-id")));
  const events = db.query<{ id: string }, []>("SELECT id FROM webhook_events").all();
  const pending = db.query("SELECT id FROM webhook_deliveries WHERE status = 'PENDING'").all();
  db.close();
  return events.filter(({ id }) => !arrived.has(id)).length + pending.length;
}

function integrity(rows: (sql: string) => Row[]): string[] {
  const [check] = rows("PRAGMA integrity_check");
  const found = check?.integrity_check === "ok" ? [] : [`integrity_check: ${JSON.stringify(check)}`];
  return [...found, ...rows("PRAGMA foreign_key_check").map((row) => `foreign key: ${JSON.stringify(row)}`)];
}

function messagesByClientId(rows: (sql: string) => Row[]): Map<string, Row[]> {
  return Map.groupBy(
    rows("SELECT public_id, seq, sender_id, text, client_message_id FROM messages"),
    (row) => `${row.sender_id} ${row.client_message_id}`,
  );
}

/** No acknowledged message may be lost or stored twice, and messages of a user must be in the order in which they were sent. */
function sentProblems(sent: readonly Sent[], stored: Map<string, Row[]>): string[] {
  return sent.flatMap(({ sender, clientMessageId, messageId, seq, text }, at) => {
    const found = stored.get(`${sender} ${clientMessageId}`) ?? [];
    const [row] = found;
    if (!row) return [`lost: ${clientMessageId}`];
    const before = sent[at - 1]?.seq ?? 0;
    return [
      ...(found.length > 1 ? [`twice: ${clientMessageId}`] : []),
      ...(row.public_id === messageId && row.seq === seq && row.text === text ? [] : [`changed: ${clientMessageId}`]),
      ...(seq > before ? [] : [`out of order: ${clientMessageId} has ${seq} after ${before}`]),
    ];
  });
}

/** 1, 2, 3, … in every conversation. */
function eventProblems(rows: (sql: string) => Row[]): string[] {
  return rows(
    `SELECT name, last_seq, COUNT(e.seq) AS events, COALESCE(MIN(e.seq), 1) AS first, COALESCE(MAX(e.seq), 0) AS last
     FROM conversations c LEFT JOIN conversation_events e ON e.conversation_id = c.id GROUP BY c.id
     HAVING events <> last_seq OR first <> 1 OR last <> last_seq`,
  ).map((row) => `a gap in the events of ${row.name}: ${JSON.stringify(row)}`);
}

/** A user who listened has seen what the database holds, from its first join to the end. */
function seenProblems(user: ChatHistory, rows: (sql: string) => Row[]): string[] {
  const log = rows(
    `SELECT e.seq, e.type FROM conversation_events e JOIN conversations c ON c.id = e.conversation_id
     WHERE c.name = 'common' AND e.seq > ${user.firstSeq} ORDER BY e.seq`,
  );
  const differs = log.findIndex(({ seq, type }, at) => user.seen[at]?.seq !== seq || user.seen[at]?.type !== type);
  if (differs === -1 && log.length === user.seen.length) return [];
  const at = differs === -1 ? log.length : differs;
  return [`${user.name} saw ${JSON.stringify(user.seen[at])} where the log has ${JSON.stringify(log[at])}`];
}

function madeProblems(user: RestHistory, rows: (sql: string) => Row[]): string[] {
  const once = (made: readonly Made[], table: string, id: string, name: string) => {
    const byName = Map.groupBy(rows(`SELECT ${id} AS id, ${name} AS name FROM ${table}`), (row) => String(row.name));
    return made.flatMap((one) => {
      const found = byName.get(one.name) ?? [];
      if (!found.some((row) => row.id === one.id)) return [`lost: ${one.name} of ${table}`];
      return found.length > 1 ? [`twice: ${one.name} of ${table}`] : [];
    });
  };
  const tokens = new Set(rows("SELECT id FROM rtc_tokens").map((row) => row.id));
  const open = new Set(rows("SELECT id FROM rooms WHERE status = 'ACTIVE'").map((row) => row.id));
  return [
    ...once(user.rooms, "rooms", "id", "name"),
    ...once(user.conversations, "conversations", "public_id", "name"),
    ...once(user.streams, "live_streams", "public_id", "title"),
    ...user.rtcTokens.filter((id) => !tokens.has(id)).map((id) => `lost: RTC token ${id}`),
    ...user.closedRooms.filter((id) => open.has(id)).map((id) => `open again: room ${id}`),
  ];
}

/** Every event arrived at least once, always with its one id and the same bytes, signed. */
function webhookProblems(
  received: Histories["received"],
  sent: readonly Sent[],
  rows: (sql: string) => Row[],
  secret: string,
): string[] {
  const arrived = Map.groupBy(received, ({ headers }) => headers.get("svc-event-id") ?? "");
  const events = rows("SELECT id, body, message_id, type FROM webhook_events");
  const announced = new Set(events.filter(({ type }) => type === "message.created").map((row) => row.message_id));
  return [
    ...sent.filter(({ messageId }) => !announced.has(messageId)).map(({ messageId }) => `no event for ${messageId}`),
    ...events.filter(({ id }) => !arrived.has(String(id))).map(({ id, type }) => `${type} ${id} never arrived`),
    ...events.flatMap(({ id, body }) =>
      (arrived.get(String(id)) ?? []).every((one) => one.body === body) ? [] : [`${id} arrived with other bytes`],
    ),
    ...received.filter((one) => !isSigned(one, secret)).map(({ body }) => `not signed: ${body.slice(0, 80)}`),
    ...rows("SELECT id FROM webhook_deliveries WHERE status <> 'DELIVERED'").map(({ id }) => `${id} was given up`),
  ];
}

function isSigned({ headers, body }: Histories["received"][number], secret: string): boolean {
  const [, time = "", signature] = /^t=(\d+),v1=([0-9a-f]+)$/.exec(headers.get("svc-signature") ?? "") ?? [];
  return createHmac("sha256", secret).update(`${time}.${body}`).digest("hex") === signature;
}
