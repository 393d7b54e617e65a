/** SQLite prefers an index in the order of `ORDER BY`, or for the first table of a join, although it then reads every row of a tenant. */
import { afterAll, expect, spyOn, test } from "bun:test";
import { auditStore } from "../../../src/features/audit/audit.store.ts";
import { ringStore } from "../../../src/features/chat/calls/ring.store.ts";
import { conversationStore } from "../../../src/features/chat/conversations/conversation.store.ts";
import { readStateStore } from "../../../src/features/chat/messages/read-state.store.ts";
import { chatPersonalDataStore } from "../../../src/features/chat/personal-data.store.ts";
import { connectionStore as chatConnectionStore } from "../../../src/features/chat/socket/connection.store.ts";
import { pushStore } from "../../../src/features/push/push.store.ts";
import { storageLocationStore } from "../../../src/features/recordings/storage-locations/storage-locations.store.ts";
import { connectionStore } from "../../../src/features/sessions/connections/connection.store.ts";
import { sessionPersonalData } from "../../../src/features/sessions/personal-data.ts";
import { usagePersonalData } from "../../../src/features/usage/personal-data.ts";
import { openDatabase } from "../../../src/kernel/db/open.ts";
import type { Unit } from "../../../src/kernel/db/writer.ts";
import type { Runtime } from "../../../src/kernel/runtime.ts";
import { emptyDatabase } from "../../harness/empty-database.ts";

const db = openDatabase(emptyDatabase());
afterAll(() => db.$client.close());

const UNIT = { requireRunning: () => {}, changed: () => {} } as unknown as Unit;
const TENANT = { projectId: "p", environment: "PRODUCTION" } as const;

/** How SQLite finds the rows of the statements that `read` compiles. */
function plansOf(read: () => unknown): string {
  const prepare = spyOn(db.$client, "prepare");
  read();
  return plansOfCalls(prepare);
}

function plansOfCalls(prepare: ReturnType<typeof spyOn<typeof db.$client, "prepare">>): string {
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

test("a socket that opens finds the rings of its user only", () => {
  expect(plansOf(() => ringStore(db).openOf(TENANT, "user"))).toContain(
    "SEARCH m USING COVERING INDEX ring_members_ringing (user_id=?)",
  );
});

test("the files of ended recordings are found without reading all recordings", () => {
  const after = { recordingId: "", id: "" };
  for (const plan of [
    plansOf(() => storageLocationStore(db).endedOnDisk(after, 1)),
    plansOf(() => storageLocationStore(db).endedOnNode("node", after, 1)),
  ])
    expect(plan).toContain("SCAN recordings USING COVERING INDEX recordings_running");
});

test("the audit log finds the entries of an action, an actor and a resource without reading all others", () => {
  for (const [filter, index] of [
    [{ action: "room.closed" }, "audit_entries_by_action (project_id=? AND action=? AND id<?)"],
    [{ actorId: "user" }, "audit_entries_by_actor (project_id=? AND actor_id=? AND id<?)"],
    [{ resourceId: "room" }, "audit_entries_by_resource (project_id=? AND resource_id=? AND id<?)"],
    [{ action: "room.closed", resourceId: "room" }, "audit_entries_by_"],
    [{}, "audit_entries_by_project (project_id=? AND id<?)"],
  ] as const) {
    const plan = plansOf(() => auditStore(db).list("p", filter, "~", 1));
    expect(plan).toContain(`SEARCH audit_entries USING INDEX ${index}`);
    expect(plan).not.toContain("TEMP B-TREE");
  }
});

test("the next push to a push service is found without reading those to others, or sorting", () => {
  const plan = plansOf(() => pushStore(db).nextTo("https://push.example.com", []));
  expect(plan).toContain("SEARCH push_deliveries USING INDEX push_deliveries_due (origin=?)");
  expect(plan).not.toContain("TEMP B-TREE FOR ORDER BY");
});

test("the pushes of an ended ring are found without reading those of all conversations", () => {
  expect(plansOf(() => pushStore(db).dropRing(UNIT, "conversation", "ring"))).toContain(
    "SEARCH push_deliveries USING INDEX push_deliveries_of_conversation (conversation_id=?)",
  );
});

test("old chat connections are removed, and those that a crash left open are ended, without reading all others", () => {
  expect(plansOf(() => chatConnectionStore(db).prune(UNIT, 0, 1))).toContain(
    "SEARCH chat_connections USING INDEX chat_connections_by_age (connected_at<?)",
  );
  expect(plansOf(() => chatConnectionStore(db).abandon(UNIT, 0))).toContain(
    "SCAN chat_connections USING INDEX chat_connections_open",
  );
});

test("the connections and sessions of a user are exported without reading all of the project for each page", async () => {
  const user = { ...TENANT, userId: "user" };
  const runtime = { db } as unknown as Runtime;
  const exported = {
    rtc_connections: () => sessionPersonalData(runtime, {} as never).kinds?.connections?.(user),
    usage_sessions: () => usagePersonalData(runtime).kinds?.mediaSessions?.(user),
    chat_connections: () => chatPersonalDataStore(db).connections(user),
  };
  db.$client.run("PRAGMA foreign_keys = OFF");
  for (const [table, rows] of Object.entries(exported)) {
    insertAny(table);
    const prepare = spyOn(db.$client, "prepare");
    for await (const _ of rows() ?? []);
    expect(plansOfCalls(prepare)).toContain(`SEARCH ${table} USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)`);
  }
});

function insertAny(table: string): void {
  const columns = db.$client
    .query<{ name: string; type: string }, [string]>("SELECT name, type FROM pragma_table_info(?) WHERE [notnull]")
    .all(table);
  const values = columns.map(({ type }) => (type === "TEXT" ? "''" : "0"));
  db.$client.run(`INSERT INTO ${table} (${columns.map(({ name }) => name)}) VALUES (${values})`);
}
