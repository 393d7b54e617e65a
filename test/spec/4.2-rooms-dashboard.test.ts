import { afterAll, describe, expect, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);

const { projectId, key } = await server.project();
const { token: developer } = await server.session({ projectId, role: "DEVELOPER" });
const { token: viewer } = await server.session({ projectId, role: "VIEWER" });
const { token: stranger } = await server.session({ role: "OWNER" });
const path = `/v1/projects/${projectId}/rooms`;
const create = (name: string, query = "") => server.call("POST", `${path}${query}`, { key: developer, body: { name } });
const names = async (query = "") =>
  JSON.parse((await server.call("GET", `${path}${query}`, { key: developer })).text).map(
    (r: { name: string }) => r.name,
  );

describe("[4.2] rooms in the dashboard", () => {
  test("the dashboard lists the same rooms as the API key, in DEVELOPMENT by default", async () => {
    const { status, body } = await create("shared");
    expect(status).toBe(201);
    expect(body).toMatchObject({ name: "shared", environment: "DEVELOPMENT", participantCount: 0 });
    expect((await server.call("GET", `/v1/rooms/${body.id}`, { key })).status).toBe(200);
    await create("live", "?environment=PRODUCTION");
    expect(await names()).toEqual(["shared"]);
    expect(await names("?environment=PRODUCTION")).toEqual(["live"]);
    expect((await server.call("GET", `${path}?environment=STAGING`, { key: developer })).status).toBe(400);
  });

  test("an Idempotency-Key that was used in one environment is refused in the other", async () => {
    const headers = { "idempotency-key": "both-environments" };
    const request = { key: developer, headers, body: { name: "twice" } };
    expect((await server.call("POST", path, request)).status).toBe(201);
    expect((await server.call("POST", path, request)).headers.get("idempotent-replayed")).toBe("true");
    const other = await server.call("POST", `${path}?environment=PRODUCTION`, request);
    expect([other.status, other.body.code]).toEqual([422, "SVC_IDEMPOTENCY_KEY_REUSED"]);
  });

  test("one room is read by its id with its participants, whatever its environment", async () => {
    const { body: room } = await create("by-id", "?environment=PRODUCTION");
    const { status, body } = await server.call("GET", `${path}/${room.id}`, { key: viewer });
    expect([status, body]).toEqual([200, { ...room, participants: [], links: [] }]);
    expect((await server.call("GET", `${path}/nothing`, { key: viewer })).body.code).toBe("SVC_ROOM_NOT_FOUND");
  });

  test("a room of another project is not found", async () => {
    const other = await server.project();
    const { body: room } = await server.call("POST", "/v1/rooms", { key: other.key, body: { name: "x" } });
    for (const [method, tail] of [
      ["GET", ""],
      ["DELETE", ""],
      ["POST", "/test-token"],
    ] as const) {
      const { body } = await server.call(method, `${path}/${room.id}${tail}`, { key: developer });
      expect(body.code).toBe("SVC_ROOM_NOT_FOUND");
    }
  });

  test("closing keeps it readable under status=CLOSED", async () => {
    const { body: room } = await create("over");
    expect((await server.call("DELETE", `${path}/${room.id}`, { key: developer })).body.status).toBe("CLOSED");
    expect(await names()).not.toContain("over");
    expect(await names("?status=CLOSED")).toEqual(["over"]);
  });

  test("other users find no project, and viewers can read but not change", async () => {
    const { body: room } = await create("guarded");
    for (const [method, tail, body] of [
      ["GET", "", undefined],
      ["POST", "", { name: "n" }],
      ["GET", `/${room.id}`, undefined],
      ["DELETE", `/${room.id}`, undefined],
      ["POST", `/${room.id}/test-token`, {}],
    ] as const) {
      expect((await server.call(method, path + tail, { key: stranger, body })).body.code).toBe("SVC_PROJECT_NOT_FOUND");
      expect((await server.call(method, path + tail, { body })).status).toBe(401);
      expect((await server.call(method, path + tail, { key, body })).status).toBe(401);
      const asViewer = await server.call(method, path + tail, { key: viewer, body });
      expect([method, tail, asViewer.status]).toEqual([method, tail, method === "GET" ? 200 : 403]);
    }
  });
});

describe("[4.2] POST …/test-token", () => {
  test("lasts 10 minutes, permits everything, and has a generated identity by default", async () => {
    const { body: room } = await create("trial");
    const { status, body } = await server.call("POST", `${path}/${room.id}/test-token`, { key: developer });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      roomId: room.id,
      participantIdentity: expect.stringMatching(/^test-\w{8}$/),
      permissions: { join: true, subscribe: true, publish: true, publishData: true },
    });
    expect(Date.parse(String(body.expiresAt)) - Date.parse(String(body.createdAt))).toBe(600_000);
    const named = await server.call("POST", `${path}/${room.id}/test-token`, {
      key: developer,
      body: { participantIdentity: "ada" },
    });
    expect(named.body.participantIdentity).toBe("ada");
    expect(named.body.token).not.toBe(body.token);
  });

  test("the identity has 1-128 characters of its alphabet, and a closed room is 409", async () => {
    const { body: room } = await create("trial-edges");
    const mint = (participantIdentity: unknown) =>
      server.call("POST", `${path}/${room.id}/test-token`, { key: developer, body: { participantIdentity } });
    expect((await mint("")).status).toBe(400);
    expect((await mint("i".repeat(128))).status).toBe(201);
    expect((await mint("i".repeat(129))).status).toBe(400);
    expect((await mint("a b")).status).toBe(400);
    await server.call("DELETE", `${path}/${room.id}`, { key: developer });
    expect((await mint("ada")).body.code).toBe("SVC_ROOM_CLOSED");
  });

  test("[8] each user can mint 30 test tokens per window", async () => {
    const { body: room } = await create("trial-budget");
    const { token: busy } = await server.session({ projectId, role: "DEVELOPER" });
    const mint = (key: string) => server.call("POST", `${path}/${room.id}/test-token`, { key });
    for (let left = 29; left >= 0; left--) {
      expect((await mint(busy)).headers.get("ratelimit-remaining")).toBe(String(left));
    }
    expect((await mint(busy)).body.code).toBe("SVC_RATE_LIMITED");
    const { token: fresh } = await server.session({ projectId, role: "DEVELOPER" });
    expect((await mint(fresh)).status).toBe(201);
  });
});
