import { afterAll, expect, test } from "bun:test";
import { fillPath, type Operation, operationsOf } from "../../harness/operations.ts";
import { rtcServer } from "../../harness/rtc.ts";
import { tenantOf } from "../../harness/tenant.ts";
import { bodyFor } from "../../security/valid-body.ts";
import { UNLIMITED } from "./unlimited.ts";

const server = await rtcServer(UNLIMITED);
afterAll(server.close);
const tenant = await tenantOf(server);
const name = `${tenant.marker}-room`;
const { apiKey, session } = tenant.credentials;

const inPath = ({ path }: Operation) => /\/rooms\/\{(id|roomId)\}|^\/wh[ie]p\/\{roomId\}/.test(path);
const inQuery = ({ query }: Operation) => query.some((parameter) => parameter.name === "roomId");
const inBody = ({ body }: Operation) => body?.properties?.roomId !== undefined;
/** Routes that end what others need come last. */
const rank = ({ method }: Operation) => Number(method === "DELETE");
const operations = (await operationsOf(server))
  .filter((operation) => inPath(operation) || inQuery(operation) || inBody(operation))
  .sort((a, b) => rank(a) - rank(b));

function ask(operation: Operation, room: string) {
  const [credential = "apiKey"] = operation.credentials;
  const path = fillPath(operation, (parameter) =>
    inPath(operation) && ["id", "roomId"].includes(parameter) ? room : tenant.idFor(operation, parameter),
  );
  const query = inQuery(operation) ? `?roomId=${encodeURIComponent(room)}` : "";
  const made = operation.body && bodyFor(operation);
  const body = inBody(operation) ? { ...made, roomId: room } : made;
  return server.call(operation.method, path + query, {
    key: tenant.credentials[credential],
    ...(operation.bodyType === "application/sdp"
      ? { raw: "v=0", headers: { "content-type": "application/sdp" } }
      : { body }),
  });
}

test("[24] a name that no room has is 404, in a filter too", async () => {
  for (const operation of operations.filter(({ path }) => !path.endsWith("{sessionId}"))) {
    const { status, body } = await ask(operation, "no-such-room");
    expect([operation.name, status, body.code]).toEqual([operation.name, 404, "SVC_ROOM_NOT_FOUND"]);
  }
});

const rooms = async (options: { key?: string; body?: object } = {}) =>
  (await server.call("POST", "/v1/rooms", { key: apiKey, ...options })).body as Record<string, string>;
const listed = async (path: string, key = apiKey) =>
  JSON.parse((await server.call("GET", path, { key })).text) as Record<string, unknown>[];

test("[24] filters by name give what filters by id give", async () => {
  const at = `/v1/projects/${tenant.projectId}`;
  for (const [base, key] of [
    ["/v1", apiKey],
    [at, session],
  ] as const) {
    for (const list of ["calls", "connections"]) {
      const byName = await listed(`${base}/${list}?roomId=${name}`, key);
      expect(byName.length).toBeGreaterThan(0);
      expect(byName).toEqual(await listed(`${base}/${list}?roomId=${tenant.ids.roomId}`, key));
    }
    const recordings = await listed(`${base}/recordings?roomId=${tenant.marker}-spare`, key);
    expect(recordings).toEqual(await listed(`${base}/recordings?roomId=${tenant.ids.spareRoomId}`, key));
    expect(recordings.length).toBeGreaterThan(0);
  }
});

test("[24] every route, query and body that takes a room's id takes its name", async () => {
  expect(operations.length).toBeGreaterThan(20);
  // The room to which participants are moved.
  await rooms({ body: { name: "taken" } });
  for (const operation of operations) {
    // One of them closed the room.
    await server.call("POST", "/v1/rooms", { key: apiKey, body: { name } });
    const { status, body } = await ask(operation, name);
    expect([operation.name, body.code === "SVC_ROOM_NOT_FOUND", status < 500]).toEqual([operation.name, false, true]);
  }
});

test("[24] an existing id takes precedence over an equal name; a name is valid in its environment and project only", async () => {
  const first = await rooms({ body: { name: "first" } });
  const impostor = await rooms({ body: { name: String(first.id) } });
  const get = async (reference: string, key = apiKey) =>
    (await server.call("GET", `/v1/rooms/${reference}`, { key })).body.id;
  expect(await get(String(first.id))).toBe(first.id);
  expect(await get(String(impostor.id))).toBe(impostor.id);
  expect(await get(String(first.id).toUpperCase())).toBe(first.id);

  const stranger = await server.project();
  const theirs = await rooms({ key: stranger.key, body: { name: "theirs" } });
  expect(await get(String(theirs.id))).toBeUndefined();
  expect(await get("theirs")).toBeUndefined();

  const dashboard = `/v1/projects/${tenant.projectId}/rooms/first`;
  expect((await server.call("GET", dashboard, { key: session })).body.id).toBe(first.id);
  expect((await server.call("GET", `${dashboard}?environment=PRODUCTION`, { key: session })).status).toBe(404);
});

test("[24] a closed room gives its name away, but lists can still be filtered by it", async () => {
  await rooms({ body: { name: "again" } });
  const started = await server.call("POST", "/v1/rooms/again/recordings", { key: apiKey, body: {} });
  await server.call("DELETE", "/v1/rooms/again", { key: apiKey });
  expect((await server.call("GET", "/v1/rooms/again", { key: apiKey })).status).toBe(404);
  const mint = { key: apiKey, body: { participantIdentity: "ada" } };
  expect((await server.call("POST", "/v1/rooms/again/rtc-tokens", mint)).body.code).toBe("SVC_ROOM_NOT_FOUND");
  expect((await listed("/v1/recordings?roomId=again")).map(({ id }) => id)).toEqual([started.body.id]);

  const after = await rooms({ body: { name: "again" } });
  expect((await server.call("POST", "/v1/rooms/again/rtc-tokens", mint)).body.roomId).toBe(after.id);
  expect(await listed("/v1/recordings?roomId=again")).toEqual([]);
});

test("[24] a conversation is found by the name of its room, after its own name", async () => {
  await rooms({ body: { name: "ward" } });
  const attached = await server.call("POST", "/v1/chat/conversations", {
    key: apiKey,
    body: { name: "ward-chat", roomId: "ward" },
  });
  expect(attached.status).toBe(201);
  const found = async () => (await server.call("GET", "/v1/chat/conversations/ward", { key: apiKey })).body.id;
  expect(await found()).toBe(attached.body.id);
  const named = await server.call("POST", "/v1/chat/conversations", { key: apiKey, body: { name: "ward" } });
  expect(await found()).toBe(named.body.id);
});
