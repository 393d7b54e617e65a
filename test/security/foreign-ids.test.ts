import { afterAll, expect, test } from "bun:test";
import type { CredentialKind } from "../../src/kernel/http/guards.ts";
import { fillPath, type Operation, operationsOf } from "../harness/operations.ts";
import { rtcServer } from "../harness/rtc.ts";
import { tenantOf } from "../harness/tenant.ts";
import { UNLIMITED } from "../spec/contract/unlimited.ts";
import { rowsOf } from "./rows.ts";
import { bodyFor } from "./valid-body.ts";

const server = await rtcServer(UNLIMITED);
afterAll(server.close);
const alice = await tenantOf(server);
const mallory = await tenantOf(server);
const operations = (await operationsOf(server)).filter(
  ({ credentials, path }) => credentials.length > 0 && !/^\/v1\/(rtc\/servers|cluster)/.test(path),
);

/** Fields of a body or a query that name a record, and Alice's record that they could name. */
const { ids } = alice;
const FOREIGN: Record<string, unknown> = {
  roomId: ids.roomId,
  replyTo: ids.messageId,
  threadRootId: ids.messageId,
  attachmentId: ids.attachmentId,
  conversations: [ids.room],
  connectionId: ids.connectionId,
  actorId: ids.memberId,
  resourceId: ids.webhookId,
  to: [alice.marker],
};

/** Rows that are Alice's, or say anything about something of hers. */
function aboutAlice(): string[] {
  const marks = [alice.marker, alice.projectId, ...Object.values(ids)].filter((mark) => mark.length > 8);
  return rowsOf(server).filter((row) => marks.some((mark) => row.includes(mark)));
}

type Asked = { query?: Record<string, string>; body?: Record<string, unknown> };

async function ask(operation: Operation, kind: CredentialKind, { query = {}, body = {} }: Asked) {
  const needed = Object.fromEntries(
    operation.query.filter(({ name }) => name === "q").map(({ name }) => [name, "says"]),
  );
  const search = new URLSearchParams({ ...needed, ...query });
  const path = fillPath(operation, (name) => mallory.idFor(operation, name));
  const raw = operation.body && JSON.stringify({ ...bodyFor(operation), ...body });
  return server.call(operation.method, `${path}?${search}`, { key: mallory.credentials[kind], raw });
}

let tried = 0;
for (const operation of operations) {
  const inBody = Object.keys(operation.body?.properties ?? {}).filter((name) => name in FOREIGN);
  const inQuery = operation.query.map(({ name }) => name).filter((name) => name in FOREIGN);
  for (const name of [...inBody, ...inQuery]) {
    tried++;
    test(`[5] ${operation.name} with another project's ${name}: nothing of it is shown or changed`, async () => {
      const before = aboutAlice();
      for (const kind of operation.credentials) {
        const foreign = FOREIGN[name];
        const asked = inBody.includes(name) ? { body: { [name]: foreign } } : { query: { [name]: String(foreign) } };
        const { status, text } = await ask(operation, kind, asked);
        expect(status).toBeLessThan(500);
        // The submitted id may be in the response, but nothing of its record.
        expect(text.replaceAll(JSON.stringify(foreign), "").replaceAll(String(foreign), "")).not.toContain(
          alice.marker,
        );
      }
      expect(aboutAlice()).toEqual(before);
    });
  }
}

test("[5] the tests above have tried fields", () => expect(tried).toBeGreaterThan(10));

const paged = operations.filter(({ query, method }) => method === "GET" && query.some(({ name }) => name === "cursor"));

test("[1] a cursor from another project's list shows nothing of that list", async () => {
  let cursors = 0;
  for (const operation of paged) {
    for (const kind of operation.credentials) {
      const path = fillPath(operation, (name) => alice.idFor(operation, name));
      const { headers } = await server.call("GET", `${path}?limit=1`, { key: alice.credentials[kind] });
      const cursor = /[?&]cursor=([^&>]+)/.exec(headers.get("link") ?? "")?.[1];
      if (cursor === undefined) continue;
      cursors++;
      const { text } = await ask(operation, kind, { query: { cursor: decodeURIComponent(cursor) } });
      expect([operation.name, text.includes(alice.marker)]).toEqual([operation.name, false]);
    }
  }
  expect(cursors).toBeGreaterThan(3);
});
