import { afterAll, expect, test } from "bun:test";
import { fillPath, type Operation, operationsOf } from "../harness/operations.ts";
import { rtcServer } from "../harness/rtc.ts";
import { type Tenant, tenantOf } from "../harness/tenant.ts";
import { UNLIMITED } from "../spec/contract/unlimited.ts";
import { rowsOf } from "./rows.ts";
import { bodyFor } from "./valid-body.ts";

const server = await rtcServer(UNLIMITED);
afterAll(server.close);

const alice = await tenantOf(server);
const mallory = await tenantOf(server);
/** A user's name is no record: in every project it means that project's own (test/features/privacy). */
const OF_NOBODY = ["/v1/people/{userId}", "/v1/people/{userId}/exports", "/v1/chat/blocks/{blockedUserId}"].flatMap(
  (path) => [path, path.replace("/v1", "/v1/projects/{projectId}")],
);
/**
 * Routes that name a record and take a tenant's credential; a new one is among them by itself. An invitation's token is
 * a secret of its own.
 */
const operations = (await operationsOf(server)).filter(
  ({ path, pathParameters, credentials }) =>
    pathParameters.length > 0 &&
    credentials.length > 0 &&
    !credentials.includes("sfuSecret") &&
    !pathParameters.includes("token") &&
    !OF_NOBODY.includes(path),
);

/** A body that would be taken if the record were the caller's. */
function requestBody(operation: Operation): { raw?: string; headers?: Record<string, string> } {
  const { body, bodyType } = operation;
  if (body === undefined) return {};
  if (bodyType !== "application/json") return { raw: "v=0\r\n", headers: { "content-type": bodyType } };
  return { raw: JSON.stringify(bodyFor(operation)) };
}

/** Parameters that a search, and a backend's request for a user's read state, require. */
function queryOf({ query }: Operation): string {
  const needed = query.filter(({ name }) => name === "q" || name === "userId");
  return needed.length === 0 ? "" : `?${needed.map(({ name }) => `${name}=says`).join("&")}`;
}

const ask = (operation: Operation, credential: string, idOf: (name: string) => string) =>
  server.call(operation.method, `${fillPath(operation, idOf)}${queryOf(operation)}`, {
    key: credential,
    ...(operation.method === "GET"
      ? {}
      : { headers: { "content-type": "application/json" }, ...requestBody(operation) }),
  });

/** The record that each name in the path refers to. */
const WAYS: Record<string, (name: string) => Tenant> = {
  "all of another project": () => alice,
  "a record of another project below one's own": (name) => (name === "projectId" ? mallory : alice),
};

test("[5] the owner can reach every route that the tests below try as a stranger", async () => {
  expect(operations.length).toBeGreaterThan(80);
  for (const operation of operations.filter(({ method }) => method === "GET")) {
    for (const kind of operation.credentials) {
      const { status } = await ask(operation, alice.credentials[kind], (name) => alice.idFor(operation, name));
      const expected = /^\/v1\/(rtc\/servers|cluster)/.test(operation.path) ? 403 : 200;
      expect([operation.name, kind, status]).toEqual([operation.name, kind, expected]);
    }
  }
});

for (const [way, ownerOf] of Object.entries(WAYS)) {
  for (const operation of operations) {
    // A tenant is not a stranger to a path that names only its own project.
    if (operation.pathParameters.every((name) => ownerOf(name) === mallory)) continue;
    test(`[5] ${operation.name}, ${way}: nothing is shown, nothing is changed`, async () => {
      const before = rowsOf(server);
      for (const kind of operation.credentials) {
        const idOf = (name: string) => ownerOf(name).idFor(operation, name);
        const { status, text, body } = await ask(operation, mallory.credentials[kind], idOf);
        expect([kind, status, [401, 403, 404].includes(status)]).toEqual([kind, status, true]);
        expect(text.replaceAll(String(body.path), "")).not.toContain(alice.marker);
      }
      expect(rowsOf(server)).toEqual(before);
    });
  }
}
