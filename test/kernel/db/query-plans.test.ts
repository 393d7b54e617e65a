/** SQLite prefers an index in the order of `ORDER BY`, or for the first table of a join, although it then reads every row of a tenant. */
import { afterAll, expect, spyOn, test } from "bun:test";
import { conversationStore } from "../../../src/features/chat/conversations/conversation.store.ts";
import { readStateStore } from "../../../src/features/chat/messages/read-state.store.ts";
import { connectionStore } from "../../../src/features/sessions/connections/connection.store.ts";
import { openDatabase } from "../../../src/kernel/db/open.ts";
import { emptyDatabase } from "../../harness/empty-database.ts";

const db = openDatabase(emptyDatabase());
afterAll(() => db.$client.close());

const TENANT = { projectId: "p", environment: "PRODUCTION" } as const;

/** How SQLite finds the rows of the statements that `read` compiles. */
function plansOf(read: () => unknown): string {
  const prepare = spyOn(db.$client, "prepare");
  read();
  const statements = prepare.mock.calls.map(([sql]) => sql);
  prepare.mockRestore();
  return statements
    .flatMap((sql) => db.$client.query<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`).all())
    .map(({ detail }) => detail)
    .join("\n");
}

test("a join finds the earlier records of its client without reading those of others", () => {
  expect(plansOf(() => connectionStore(db).findByClient(TENANT, "connection"))).toContain(
    "SEARCH rtc_connections USING INDEX rtc_connections_by_client (project_id=? AND environment=? AND connection_id=?)",
  );
});

test("unread messages are counted in the user's own conversations only", () => {
  expect(plansOf(() => readStateStore(db).unreadOfUser(TENANT, "user", null))).toContain(
    "SEARCH cm USING COVERING INDEX conversation_members_by_user (user_id=?)",
  );
});

test("the conversation of a room is found by the room's name", () => {
  expect(plansOf(() => conversationStore(db).resolve(TENANT, "room"))).toContain(
    "SEARCH rooms USING INDEX rooms_by_name (project_id=? AND environment=? AND name=?)",
  );
});
