import { afterAll, expect, test } from "bun:test";
import { fillPath, type Operation, operationsOf } from "../harness/operations.ts";
import { rtcServer } from "../harness/rtc.ts";
import { tenantOf } from "../harness/tenant.ts";
import { UNLIMITED } from "../spec/contract/unlimited.ts";
import { rowsOf } from "./rows.ts";
import { bodyFor } from "./valid-body.ts";

const server = await rtcServer(UNLIMITED);
afterAll(server.close);
/** Everything she has is in DEVELOPMENT; the credentials below belong to the same project, for PRODUCTION. */
const alice = await tenantOf(server);
const { runtime, services } = server;
const made = { name: "of the other environment", environment: "PRODUCTION" as const };
const { key: apiKey } = await runtime.write((unit) => services.apiKeys.create(unit, alice.projectId, made));
const minted = await server.call("POST", "/v1/chat/tokens", { key: apiKey, body: { userId: alice.marker } });
const credentials: Record<string, string> = { apiKey, chatToken: String(minted.body.token) };

const operations = (await operationsOf(server)).filter((operation) => kindsOf(operation).length > 0);
function kindsOf(operation: Operation) {
  return operation.credentials.filter((kind) => kind in credentials);
}

/** A user's name is no record: in every environment it means that environment's own (test/features/privacy). */
const OF_NOBODY = ["/v1/people/{userId}", "/v1/people/{userId}/exports", "/v1/chat/blocks/{blockedUserId}"];
const named = operations.filter(({ path, pathParameters }) => pathParameters.length > 0 && !OF_NOBODY.includes(path));
for (const operation of named) {
  test(`[5] ${operation.name}: a production credential finds and changes nothing in development`, async () => {
    const before = rowsOf(server);
    for (const kind of kindsOf(operation)) {
      const path = fillPath(operation, (name) => alice.idFor(operation, name));
      const raw = operation.method === "GET" ? undefined : JSON.stringify(bodyFor(operation));
      const search = new URLSearchParams(operation.query.some(({ name }) => name === "q") ? { q: "says" } : {});
      if (operation.query.some(({ name }) => name === "userId")) search.set("userId", alice.marker);
      const { status, body, text } = await server.call(operation.method, `${path}?${search}`, {
        key: credentials[kind],
        raw,
      });
      expect([kind, status, [401, 403, 404].includes(status)]).toEqual([kind, status, true]);
      expect(text.replaceAll(String(body.path), "")).not.toContain(alice.marker);
    }
    expect(rowsOf(server)).toEqual(before);
  });
}

test("[5] no list of a production credential shows a row of development", async () => {
  // The project itself belongs to both.
  const lists = operations.filter(
    ({ method, path, pathParameters }) => method === "GET" && pathParameters.length === 0 && path !== "/v1/project",
  );
  expect(lists.length).toBeGreaterThan(5);
  for (const operation of lists) {
    for (const kind of kindsOf(operation)) {
      const search = operation.query.some(({ name }) => name === "userId") ? `?userId=${alice.marker}` : "";
      const { status, text } = await server.call("GET", `${operation.path}${search}`, { key: credentials[kind] });
      expect([operation.name, status]).toEqual([operation.name, 200]);
      // The requested user id may be in the response.
      const said = text.replaceAll(`"userId":"${alice.marker}"`, "");
      expect([operation.name, said.includes(alice.marker)]).toEqual([operation.name, false]);
    }
  }
});
