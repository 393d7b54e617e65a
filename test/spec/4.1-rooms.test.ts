import { afterAll, describe, expect, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);

const { key, projectId } = await server.project();
const stranger = await server.project();
const create = (name: string, options = {}) => server.call("POST", "/v1/rooms", { key, body: { name }, ...options });
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

describe("[4.1] POST /v1/rooms", () => {
  test("POST /v1/rooms returns 201 with the whole room", async () => {
    const { status, body } = await create("first");
    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.stringMatching(UUID),
      projectId,
      environment: "DEVELOPMENT",
      name: "first",
      region: null,
      status: "ACTIVE",
      record: false,
      recording: false,
      encrypted: false,
      lobby: false,
      locked: false,
      captions: false,
      maxParticipants: null,
      metadata: null,
      emptyTimeoutSeconds: null,
      departureTimeoutSeconds: 20,
      participantCount: 0,
      serverName: null,
      sites: [],
      createdAt: "2026-03-01T12:00:00.000Z",
      updatedAt: "2026-03-01T12:00:00.000Z",
      closedAt: null,
    });
  });

  test("POST /v1/rooms accepts maxParticipants from 1 to 10,000 or null, and metadata", async () => {
    const made = await create("limited", { body: { name: "limited", maxParticipants: 2, metadata: "ward 7" } });
    expect(made.body).toMatchObject({ maxParticipants: 2, metadata: "ward 7" });
    const { body } = await server.call("GET", "/v1/rooms/limited", { key });
    expect(body).toMatchObject({ maxParticipants: 2, metadata: "ward 7" });
    for (const maxParticipants of [0, 10_001, 2.5, "2"]) {
      const refused = await create("odd", { body: { name: "odd", maxParticipants } });
      expect([maxParticipants, refused.status]).toEqual([maxParticipants, 400]);
      const message = "must be a whole number from 1 to 10000, or null";
      expect(refused.body.details).toEqual([{ field: "maxParticipants", message }]);
    }
    const open = await create("open", { body: { name: "open", maxParticipants: null, metadata: null } });
    expect(open.body).toMatchObject({ maxParticipants: null, metadata: null });
  });

  test("a room can be created with a lobby and captions", async () => {
    const { body } = await create("ward", { body: { name: "ward", lobby: true, captions: true } });
    expect(body).toMatchObject({ lobby: true, captions: true, locked: false });
    expect((await server.call("GET", "/v1/rooms/ward", { key })).body).toMatchObject({ lobby: true, captions: true });
  });

  test("PATCH /v1/rooms/:id changes the fields that it names, and refuses what cannot change", async () => {
    const { body: room } = await create("patched", { body: { name: "patched", metadata: "ward 7", lobby: true } });
    const change = (body: object) => server.call("PATCH", `/v1/rooms/${room.id}`, { key, body });
    const changes = { metadata: null, maxParticipants: 3, lobby: false, locked: true, captions: true };
    for (const [field, value] of Object.entries(changes)) {
      const { status, body } = await change({ [field]: value });
      expect([field, status, body[field]]).toEqual([field, 200, value]);
    }
    expect((await server.call("GET", "/v1/rooms/patched", { key })).body).toMatchObject(changes);
    for (const [field, value] of Object.entries({ maxParticipants: 0, locked: "yes", metadata: 7 })) {
      const { status, body } = await change({ [field]: value });
      expect([status, body.details]).toEqual([400, [expect.objectContaining({ field })]]);
    }
    expect((await server.call("GET", "/v1/rooms/patched", { key })).body).toMatchObject({
      name: "patched",
      ...changes,
    });
  });

  test("an encrypted room cannot be recorded, nor entered by WHIP or WHEP", async () => {
    const room = await create("sealed", { body: { name: "sealed", encrypted: true } });
    expect(room.body).toMatchObject({ encrypted: true, record: false });
    const both = await create("both", { body: { name: "both", encrypted: true, record: true } });
    expect([both.status, both.body.message]).toEqual([400, expect.stringContaining("record")]);
    const recording = await server.call("POST", "/v1/rooms/sealed/recordings", { key, body: {} });
    expect([recording.status, recording.body.code]).toEqual([409, "SVC_ROOM_ENCRYPTED"]);
    const body = { participantIdentity: "camera", permissions: { publish: true } };
    const { token } = (await server.call("POST", "/v1/rooms/sealed/rtc-tokens", { key, body })).body;
    for (const kind of ["whip", "whep"]) {
      const response = await server.app.handle(
        new Request(`http://localhost/${kind}/sealed`, {
          method: "POST",
          headers: { authorization: `Bearer ${token}`, "content-type": "application/sdp" },
          body: "v=0\r\n",
        }),
      );
      expect([kind, response.status, (await response.json()).code]).toEqual([kind, 409, "SVC_ROOM_ENCRYPTED"]);
    }
  });

  test("a name is 1-128 letters, digits, -, _ and .", async () => {
    for (const good of ["x", "A-z_0.9", "...", ".x", "n".repeat(128)]) expect((await create(good)).status).toBe(201);
    for (const bad of ["", "n".repeat(129), "has space", "slash/", "ümlaut", "new\nline", "x\n", ".", ".."]) {
      const { status, body } = await create(bad);
      expect([bad, status, body.code]).toEqual([bad, 400, "SVC_VALIDATION_FAILED"]);
      expect(body.details).toEqual([{ field: "name", message: expect.any(String) }]);
    }
    expect((await server.call("POST", "/v1/rooms", { key, body: {} })).status).toBe(400);
    expect((await server.call("POST", "/v1/rooms", { key, body: { name: 7 } })).status).toBe(400);
  });

  test("the name of an active room is unique within its project and environment only", async () => {
    await create("taken");
    const again = await create("taken");
    expect([again.status, again.body.code, again.body.legacyCode]).toEqual([409, "SVC_CONFLICT", "CONFLICT"]);
    expect((await create("Taken")).status).toBe(201);
    expect((await create("taken", { key: stranger.key })).status).toBe(201);
    const production = await server.runtime.write((unit) =>
      server.services.apiKeys.create(unit, projectId, { name: "live", environment: "PRODUCTION" }),
    );
    expect((await create("taken", { key: production.key })).status).toBe(201);
  });

  test("an Idempotency-Key replays the room and creates it once", async () => {
    const headers = { "idempotency-key": "room-1" };
    const first = await create("once", { headers });
    const second = await create("once", { headers });
    expect(second.status).toBe(201);
    expect(second.body).toEqual(first.body);
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect((await create("another", { headers })).status).toBe(422);
  });
});

describe("[4.1] GET /v1/rooms", () => {
  test("lists the active rooms of this project and environment, newest first", async () => {
    const mine = await server.project();
    const names = ["one", "two", "three"];
    const ids: unknown[] = [];
    for (const name of names) ids.push((await create(name, { key: mine.key })).body.id);
    await server.call("DELETE", `/v1/rooms/${ids[1]}`, { key: mine.key });
    const { status, text } = await server.call("GET", "/v1/rooms", { key: mine.key });
    expect(status).toBe(200);
    expect(JSON.parse(text).map((room: { id: string }) => room.id)).toEqual([ids[2], ids[0]]);
  });

  test("limit is 1-200, and the link leads through all pages", async () => {
    const mine = await server.project();
    for (const name of ["a", "b", "c"]) await create(name, { key: mine.key });
    const seen: string[] = [];
    let path: string | undefined = "/v1/rooms?limit=2";
    while (path !== undefined) {
      const { text, headers } = await server.call("GET", path, { key: mine.key });
      seen.push(...JSON.parse(text).map((room: { name: string }) => room.name));
      path = /<([^>]+)>; rel="next"/.exec(headers.get("link") ?? "")?.[1];
    }
    expect(seen).toEqual(["c", "b", "a"]);
    for (const [limit, status] of [
      [0, 400],
      [1, 200],
      [200, 200],
      [201, 400],
    ]) {
      expect((await server.call("GET", `/v1/rooms?limit=${limit}`, { key })).status).toBe(Number(status));
    }
    const { body } = await server.call("GET", "/v1/rooms?cursor=nonsense", { key });
    expect(body.code).toBe("SVC_INVALID_CURSOR");
  });
});

describe("[4.1] one room", () => {
  test("can be read in its own project and environment, and is 404 elsewhere", async () => {
    const { body: room } = await create("mine");
    expect((await server.call("GET", `/v1/rooms/${room.id}`, { key })).body).toEqual(room);
    const production = await server.runtime.write((unit) =>
      server.services.apiKeys.create(unit, projectId, { name: "live", environment: "PRODUCTION" }),
    );
    for (const other of [stranger.key, production.key]) {
      for (const [method, path] of [
        ["GET", `/v1/rooms/${room.id}`],
        ["DELETE", `/v1/rooms/${room.id}`],
        ["GET", `/v1/rooms/${room.id}/participants`],
        ["DELETE", `/v1/rooms/${room.id}/rtc-tokens/x`],
      ] as const) {
        const { status, body } = await server.call(method, path, { key: other });
        expect([method, status, body.code, body.legacyCode]).toEqual([method, 404, "SVC_ROOM_NOT_FOUND", "NOT_FOUND"]);
      }
      const mint = await server.call("POST", `/v1/rooms/${room.id}/rtc-tokens`, {
        key: other,
        body: { participantIdentity: "eve" },
      });
      expect(mint.body.code).toBe("SVC_ROOM_NOT_FOUND");
    }
    expect((await server.call("GET", "/v1/rooms/unknown", { key })).status).toBe(404);
    expect((await server.call("GET", `/v1/rooms/${room.id}`)).status).toBe(401);
  });

  test("DELETE closes it, frees its name, and returns the same when repeated", async () => {
    const { body: room } = await create("closing");
    server.clock.advance(1_000);
    const closed = await server.call("DELETE", `/v1/rooms/${room.id}`, { key });
    expect(closed.status).toBe(200);
    expect(closed.body).toEqual({
      ...room,
      status: "CLOSED",
      updatedAt: "2026-03-01T12:00:01.000Z",
      closedAt: "2026-03-01T12:00:01.000Z",
    });
    server.clock.advance(1_000);
    expect((await server.call("DELETE", `/v1/rooms/${room.id}`, { key })).body).toEqual(closed.body);
    expect((await server.call("GET", `/v1/rooms/${room.id}`, { key })).body).toEqual(closed.body);
    const { status, body } = await create("closing");
    expect(status).toBe(201);
    expect(body.id).not.toBe(room.id);
  });

  test("closing publishes roomClosed once", async () => {
    const facts: unknown[] = [];
    const stop = server.runtime.bus.on("roomClosed", (fact) => facts.push(fact));
    const { body: room } = await create("announced");
    await server.call("DELETE", `/v1/rooms/${room.id}`, { key });
    await server.call("DELETE", `/v1/rooms/${room.id}`, { key });
    stop();
    expect(facts).toEqual([{ roomId: room.id, projectId, environment: "DEVELOPMENT", reason: "closed" }]);
  });

  test("the participants of an empty room are an empty list", async () => {
    const { body: room } = await create("empty");
    const { status, text } = await server.call("GET", `/v1/rooms/${room.id}/participants`, { key });
    expect([status, text]).toEqual([200, "[]"]);
  });
});
