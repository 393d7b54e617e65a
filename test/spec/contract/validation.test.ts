import { afterAll, describe, expect, test } from "bun:test";
import { fillPath, type Operation, operationsOf } from "../../harness/operations.ts";
import { rtcServer } from "../../harness/rtc.ts";
import { type TestServer, testServer } from "../../harness/server.ts";
import { tenantOf } from "../../harness/tenant.ts";
import { bodyFor } from "../../security/valid-body.ts";

const server = await rtcServer({
  RATE_LIMIT_API_KEYS: 100_000,
  RATE_LIMIT_TEST_TOKEN: 100_000,
  RATE_LIMIT_LIVE_STREAMS: 100_000,
  RATE_LIMIT_LIVE_STREAM_HOSTS: 100_000,
  RATE_LIMIT_VIEWER_TOKENS: 100_000,
  RATE_LIMIT_TELEMETRY: 100_000,
});
const tenant = await tenantOf(server, { operator: true });
afterAll(server.close);
const operations = (await operationsOf(server)).filter(({ credentials }) => credentials.length > 0);

type Details = { field: string; message: string }[] | undefined;
type Schema = { anyOf?: Schema[]; format?: string; properties?: Record<string, Schema>; items?: Schema };

const pathOf = (operation: Operation) => fillPath(operation, (name) => tenant.idFor(operation, name));
const credentialFor = ({ credentials: [kind = "apiKey"] }: Operation) => tenant.credentials[kind];

/** The parts of a schema where the framework would accept text in place of a number. */
function coercing(schema: Schema | undefined, path = ""): string[] {
  if (schema === undefined) return [];
  const here = schema.anyOf?.some(({ format }) => format === "integer" || format === "numeric") ? [path] : [];
  const fields = Object.entries(schema.properties ?? {}).flatMap(([name, field]) => coercing(field, `${path}.${name}`));
  const variants = (schema.anyOf ?? []).flatMap((variant) => coercing(variant, path));
  return [...here, ...fields, ...variants, ...coercing(schema.items, `${path}[]`)];
}

test("[contract 16] no schema of a body or a query accepts text in place of a number", () => {
  const found = server.app.routes.flatMap(({ method, path, hooks }) =>
    [...coercing(hooks.body as Schema), ...coercing(hooks.query as Schema)].map((at) => `${method} ${path} ${at}`),
  );
  expect(found).toEqual([]);
});

describe("[contract 16] a query integer consists of digits and is given once", () => {
  const counted = operations.flatMap((operation) =>
    operation.query
      .filter(({ schema }) => schema.type === "integer")
      .map((parameter) => [operation, parameter] as const),
  );
  test.each(
    counted.map(([operation, parameter]) => [`${operation.name} ${parameter.name}`, operation, parameter] as const),
  )("%s", async (_, operation, { name, schema }) => {
    const required = operation.query.filter((other) => other.required).map((other) => `&${other.name}=x`);
    const ask = (query: string) =>
      server.call(operation.method, `${pathOf(operation)}?${query}${required.join("")}`, {
        key: credentialFor(operation),
      });
    for (const text of ["0x10", "1e2", "%205", "5%20", "+5", "5.0", "-1", "", "9".repeat(16), "five"]) {
      const { status, body } = await ask(`${name}=${text}`);
      const problem = (body.details as Details)?.find(({ field }) => field === name);
      expect([text, status, problem?.field]).toEqual([text, 400, name]);
      expect(problem?.message).toStartWith("must be a whole number");
      if (schema.maximum !== undefined) expect(problem?.message).toContain(`from 1 to ${schema.maximum}`);
    }
    const { status, body } = await ask(`${name}=5&${name}=6`);
    expect([status, body.details]).toEqual([400, [{ field: name, message: "must be given once" }]]);
    expect((await ask(`${name}=5`)).status).toBeLessThan(500);
  });
});

describe("[contract 16] the error for an invalid body names the field and describes the accepted values", () => {
  const withBody = operations.filter(({ body, bodyType }) => body?.properties && bodyType === "application/json");
  test.each(withBody.map((operation) => [operation.name, operation] as const))("%s", async (_, operation) => {
    for (const name of Object.keys(operation.body?.properties ?? {})) {
      for (const wrong of [{}, [], "", "5", 1.5, -1, true, null, "\n", ["", 7], { a: { b: 1 } }]) {
        const reply = await server.call(operation.method, pathOf(operation), {
          key: credentialFor(operation),
          body: { ...bodyFor(operation), [name]: wrong },
        });
        if (reply.body.code !== "SVC_VALIDATION_FAILED") continue;
        const details = (reply.body.details as Details) ?? [];
        expect([name, wrong, details.length > 0]).toEqual([name, wrong, true]);
        for (const { field, message } of details) {
          expect(field).not.toBe("");
          // The messages of the validator: "Expected string to match …", "Required property", "Expected union value".
          expect(message).not.toMatch(/expected|required property|union value|\\[a-z]|\^/i);
        }
      }
    }
  });
});

test("the tests above have routes to test", () => {
  expect(
    operations.filter(({ query }) => query.some(({ schema }) => schema.type === "integer")).length,
  ).toBeGreaterThan(9);
  expect(operations.filter(({ body }) => body?.properties).length).toBeGreaterThan(9);
});

const key = () => tenant.credentials.apiKey;
const at = `/v1/chat/conversations/${tenant.ids.room}`;

test("[contract 16] text in place of a number in a body is 400", async () => {
  const post = (path: string, body: object) => server.call("POST", path, { key: key(), body });
  const minted = await post(`/v1/rooms/${tenant.ids.roomId}/rtc-tokens`, {
    participantIdentity: "a",
    ttlSeconds: "60",
  });
  expect([minted.status, minted.body.details]).toEqual([
    400,
    [{ field: "ttlSeconds", message: "must be a whole number from 30 to 21600" }],
  ]);
  expect((await post("/v1/chat/tokens", { userId: "a", ttlSeconds: "60" })).status).toBe(400);
  expect((await post("/v1/chat/conversations", { name: "n1", retentionDays: "60" })).status).toBe(400);
  expect((await post(`${at}/messages`, { text: "x", clientSentAt: "5" })).status).toBe(400);
});

test("[contract 16] an empty text counts as absent in a chat POST, and is invalid for an enumeration or in a PATCH", async () => {
  const call = (method: string, path: string, body: object) => server.call(method, path, { key: key(), body });
  const created = await call("POST", "/v1/chat/conversations", { name: "empty-room-id", roomId: "" });
  expect([created.status, created.body.roomId, created.body.type]).toEqual([201, null, "CHANNEL"]);
  const sent = await call("POST", `${at}/messages`, { text: "hello", replyTo: "", clientMessageId: "", senderId: "" });
  expect([sent.status, sent.body.replyTo, sent.body.senderId]).toEqual([201, null, null]);
  for (const [method, path, body, field] of [
    ["POST", `${at}/messages`, { text: "hello", type: "" }, "type"],
    ["POST", "/v1/chat/conversations", { name: "empty-type", type: "" }, "type"],
    ["POST", `${at}/members`, { userId: "somebody", role: "" }, "role"],
    ["PATCH", `/v1/chat/messages/${sent.body.id}`, { text: "", metadata: {} }, "text"],
    ["PATCH", at, { name: "" }, "name"],
    ["PATCH", at, { status: "" }, "status"],
  ] as const) {
    const { status, body: answer } = await call(method, path, body);
    expect([path, status, (answer.details as Details)?.[0]?.field]).toEqual([path, 400, field]);
  }
});

test("[contract 16] a problem with the request as a whole is listed in details too", async () => {
  for (const [path, options] of [
    ["/v1/rooms", { raw: "{", key: key() }],
    ["/v1/rooms", { raw: `{"a":${"[".repeat(200)}`, key: key() }],
    ["/v1/rooms", { raw: "[]", key: key() }],
    ["/v1/rooms", { raw: "5", key: key() }],
  ] as const) {
    const { status, body } = await server.call("POST", path, options);
    expect([status, (body.details as Details)?.map(({ field }) => field)]).toEqual([400, ["body"]]);
  }
});

test("[contract 16] a room can be read by its name too, only with a credential that may read it", async () => {
  const { key: owner } = await server.project();
  const created = await server.call("POST", "/v1/rooms", { key: owner, body: { name: "lobby.one" } });
  const read = (reference: unknown, by = owner) => server.call("GET", `/v1/rooms/${reference}`, { key: by });
  expect((await read("lobby.one")).body).toEqual((await read(created.body.id)).body);
  expect((await read("lobby.one", key())).status).toBe(404);
  expect((await read("lobby.two")).body.code).toBe("SVC_ROOM_NOT_FOUND");
  await server.call("DELETE", `/v1/rooms/${created.body.id}`, { key: owner });
  // The name of a closed room is free again.
  expect([(await read("lobby.one")).status, (await read(created.body.id)).status]).toEqual([404, 200]);
});

test("[contract 16] a server learns that the user must be a member first; a user learns nothing", async () => {
  const remove = (credential: string) => server.call("DELETE", `${at}/members/nobody-here`, { key: credential });
  const asServer = await remove(key());
  expect([asServer.status, asServer.body.code]).toEqual([404, "SVC_MEMBER_NOT_FOUND"]);
  expect(asServer.body.message).toContain("Membership comes first");
  const asUser = await remove(tenant.credentials.chatToken);
  expect([asUser.status, asUser.body.message]).toEqual([404, "There is no such member."]);
});

test("[contract 16] a webhook to loopback is accepted only by servers that listen on loopback", async () => {
  const create = async (one: TestServer) => {
    const { projectId } = await one.project();
    const { token } = await one.session({ projectId, role: "OWNER" });
    const body = { url: "http://127.0.0.1:9/hook" };
    return (await one.call("POST", `/v1/projects/${projectId}/webhooks`, { key: token, body })).status;
  };
  for (const [overrides, status] of [
    [{ HOST: "127.0.0.1" }, 201],
    [{ HOST: "::1" }, 201],
    [{ HOST: "0.0.0.0" }, 400],
    [{ HOST: "192.0.2.7" }, 400],
    [{ HOST: "0.0.0.0", WEBHOOK_ALLOW_PRIVATE: true }, 201],
  ] as const) {
    const one = testServer(overrides);
    expect([overrides, await create(one)]).toEqual([overrides, status]);
    await one.close();
  }
});
