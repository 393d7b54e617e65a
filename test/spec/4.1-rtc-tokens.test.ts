import { afterAll, describe, expect, test } from "bun:test";
import { type Reply, testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);

const { key, projectId } = await server.project();
const newKey = async () => (await server.project()).key;
const roomId = async (owner = key, name: string = crypto.randomUUID()) =>
  String((await server.call("POST", "/v1/rooms", { key: owner, body: { name } })).body.id);
const mint = (room: string, body: object, options = {}) =>
  server.call("POST", `/v1/rooms/${room}/rtc-tokens`, {
    key,
    body: { participantIdentity: "ada", ...body },
    ...options,
  });
/** Each minting test has a key of its own: the budget is per key. */
async function owned() {
  const owner = await newKey();
  const room = await roomId(owner);
  return { room, owner, mint: (body: object, options = {}) => mint(room, body, { key: owner, ...options }) };
}
const verify = (reply: Reply) => server.services.rtcTokens.verify(String(reply.body.token));

describe("[4.1] POST /v1/rooms/{roomId}/rtc-tokens", () => {
  test("returns 201 with the token and everything a client needs", async () => {
    const room = await roomId(key, "stage");
    const { status, body } = await mint(room, {
      permissions: { publish: true, publishData: true },
      ttlSeconds: 90,
      metadata: "{}",
    });
    expect(status).toBe(201);
    expect(body).toEqual({
      token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      tokenId: expect.any(String),
      endpoint: "ws://localhost/v1/rtc",
      iceServers: [],
      roomId: room,
      roomName: "stage",
      participantIdentity: "ada",
      permissions: {
        join: true,
        subscribe: true,
        publish: true,
        publishAudio: false,
        publishVideo: false,
        publishData: true,
        updateMetadata: false,
      },
      metadata: "{}",
      name: null,
      attributes: {},
      kind: "standard",
      createdAt: "2026-03-01T12:00:00.000Z",
      expiresAt: "2026-03-01T12:01:30.000Z",
    });
  });

  test("the default token lasts 600 seconds and permits joining and subscribing only", async () => {
    const { mint } = await owned();
    const { body } = await mint({});
    expect(Date.parse(String(body.expiresAt)) - Date.parse(String(body.createdAt))).toBe(600_000);
    expect(body.metadata).toBeNull();
    expect(body.permissions).toEqual({
      join: true,
      subscribe: true,
      publish: false,
      publishAudio: false,
      publishVideo: false,
      publishData: false,
      updateMetadata: false,
    });
  });

  test("every permission can be set independently", async () => {
    const { mint } = await owned();
    for (const name of [
      "join",
      "subscribe",
      "publish",
      "publishAudio",
      "publishVideo",
      "publishData",
      "updateMetadata",
    ]) {
      for (const value of [true, false]) {
        const { body } = await mint({ permissions: { [name]: value } });
        expect(body.permissions).toMatchObject({ [name]: value });
      }
    }
    expect((await mint({ permissions: { publish: "yes" } })).status).toBe(400);
  });

  test("bounds: ttlSeconds 30-21600, metadata 0-1024 characters, identity 1-128 of its alphabet", async () => {
    const { mint } = await owned();
    const cases: [object, number][] = [
      [{ ttlSeconds: 29 }, 400],
      [{ ttlSeconds: 30 }, 201],
      [{ ttlSeconds: 21_600 }, 201],
      [{ ttlSeconds: 21_601 }, 400],
      [{ ttlSeconds: 60.5 }, 400],
      [{ metadata: "" }, 201],
      [{ metadata: "m".repeat(1024) }, 201],
      [{ metadata: "m".repeat(1025) }, 400],
      [{ metadata: "🎥".repeat(1024) }, 201],
      [{ metadata: "🎥".repeat(1025) }, 400],
      [{ metadata: { an: "object" } }, 400],
      [{ name: "Åda 🎥" }, 201],
      [{ name: "🎥".repeat(128) }, 201],
      [{ name: "n".repeat(129) }, 400],
      [{ attributes: { role: "host", empty: "" } }, 201],
      [{ attributes: { role: 1 } }, 400],
      [{ attributes: { big: "x".repeat(16 * 1024) } }, 400],
      [{ kind: "agent" }, 201],
      [{ kind: "robot" }, 400],
      [{ participantIdentity: "" }, 400],
      [{ participantIdentity: "i".repeat(128) }, 201],
      [{ participantIdentity: "i".repeat(129) }, 400],
      [{ participantIdentity: "a.b_c@d:e+f=g|h-i" }, 201],
      [{ participantIdentity: "with space" }, 400],
      [{ participantIdentity: ".." }, 400],
      [{ participantIdentity: undefined }, 400],
    ];
    for (const [body, status] of cases) {
      const reply = await mint(body);
      expect([JSON.stringify(body).slice(0, 60), reply.status]).toEqual([JSON.stringify(body).slice(0, 60), status]);
    }
  });

  test("the token has the claims of the response and expires on time", async () => {
    const { mint, room } = await owned();
    const reply = await mint({ ttlSeconds: 30, permissions: { publish: true }, metadata: "m" });
    expect(await verify(reply)).toMatchObject({
      kind: "rtcToken",
      tokenId: reply.body.tokenId,
      roomId: room,
      participantIdentity: "ada",
      environment: "DEVELOPMENT",
      permissions: reply.body.permissions as object,
      metadata: "m",
    });
    server.clock.advance(29_999);
    expect((await verify(reply)).participantIdentity).toBe("ada");
    server.clock.advance(1);
    await expect(verify(reply)).rejects.toThrow("The token has expired");
  });

  test("minting a token for a closed room is 409", async () => {
    const { mint, room, owner } = await owned();
    await server.call("DELETE", `/v1/rooms/${room}`, { key: owner });
    const { status, body } = await mint({});
    expect([status, body.code]).toEqual([409, "SVC_ROOM_CLOSED"]);
  });

  test("an Idempotency-Key replays the same token for 5 minutes, then mints another", async () => {
    const { mint } = await owned();
    const headers = { "idempotency-key": "mint-1" };
    const first = await mint({}, { headers });
    expect((await mint({}, { headers })).body).toEqual(first.body);
    expect((await mint({ ttlSeconds: 60 }, { headers })).body.code).toBe("SVC_IDEMPOTENCY_KEY_REUSED");
    server.clock.advance(5 * 60_000);
    const later = await mint({}, { headers });
    expect(later.status).toBe(201);
    expect(later.body.tokenId).not.toBe(first.body.tokenId);
  });

  test("neither the log nor the database contains the token", async () => {
    const { mint } = await owned();
    const { body } = await mint({}, { headers: { "idempotency-key": "secret" } });
    expect(server.logLines.join("\n")).not.toContain(String(body.token));
    const rows = server.runtime.db.$client.query("SELECT * FROM rtc_tokens, idempotency_keys").all();
    expect(JSON.stringify(rows)).not.toContain(String(body.token));
  });

  test("TURN credentials expire with the token", async () => {
    const turn = testServer({ TURN_URLS: ["turn:turn.example.com:3478"], TURN_SECRET: "north" });
    const { key } = await turn.project();
    const { body: room } = await turn.call("POST", "/v1/rooms", { key, body: { name: "r" } });
    const { body } = await turn.call("POST", `/v1/rooms/${room.id}/rtc-tokens`, {
      key,
      body: { participantIdentity: "ada", ttlSeconds: 60 },
    });
    const username = `${Date.parse(String(body.expiresAt)) / 1000}:ada`;
    const credential = new Bun.CryptoHasher("sha1", "north").update(username).digest("base64");
    expect(body.iceServers).toEqual([{ urls: ["turn:turn.example.com:3478"], username, credential }]);
    await turn.close();
  });

  test("with PUBLIC_URL the endpoint is a wss:// URL of that host", async () => {
    const behind = testServer({ PUBLIC_URL: "https://rtc.example.com" });
    const { key } = await behind.project();
    const { body: room } = await behind.call("POST", "/v1/rooms", { key, body: { name: "r" } });
    const { body } = await behind.call("POST", `/v1/rooms/${room.id}/rtc-tokens`, {
      key,
      body: { participantIdentity: "ada" },
    });
    expect(body.endpoint).toBe("wss://rtc.example.com/v1/rtc");
    await behind.close();
  });
});

describe("[8] budgets", () => {
  test("a key can mint 60 tokens per window, with rate-limit headers, and again in the next window", async () => {
    const { mint } = await owned();
    for (let left = 59; left >= 0; left--) {
      const { status, headers } = await mint({});
      expect([status, headers.get("ratelimit-remaining")]).toEqual([201, String(left)]);
      expect(headers.get("ratelimit-limit")).toBe("60");
    }
    const { status, body, headers } = await mint({});
    expect([status, body.code, body.retryAfterSeconds]).toEqual([429, "SVC_RATE_LIMITED", 60]);
    expect(headers.get("retry-after")).toBe("60");
    server.clock.advance(60_000);
    expect((await mint({})).status).toBe(201);
  });

  test("two keys of one project have separate budgets, and a refused request counts", async () => {
    const small = testServer({ RATE_LIMIT_RTC_TOKENS: 1, RATE_LIMIT_RTC_TOKEN_REVOKE: 1 });
    const { key, projectId } = await small.project();
    const other = await small.runtime.write((unit) =>
      small.services.apiKeys.create(unit, projectId, { name: "second", environment: "DEVELOPMENT" }),
    );
    const { body: room } = await small.call("POST", "/v1/rooms", { key, body: { name: "r" } });
    const path = `/v1/rooms/${room.id}/rtc-tokens`;
    expect((await small.call("POST", path, { key, body: {} })).status).toBe(400);
    expect((await small.call("POST", path, { key, body: { participantIdentity: "a" } })).status).toBe(429);
    expect((await small.call("POST", path, { key: other.key, body: { participantIdentity: "a" } })).status).toBe(201);
    expect((await small.call("DELETE", `${path}/none`, { key })).status).toBe(404);
    expect((await small.call("DELETE", `${path}/none`, { key })).status).toBe(429);
    await small.close();
  });
});

describe("[4.1] DELETE /v1/rooms/{roomId}/rtc-tokens/{tokenId}", () => {
  test("revokes a token with 204, even repeatedly, and the token is refused as revoked", async () => {
    const { mint, room, owner } = await owned();
    const reply = await mint({});
    const path = `/v1/rooms/${room}/rtc-tokens/${reply.body.tokenId}`;
    const facts: unknown[] = [];
    const stop = server.runtime.bus.on("rtcTokenRevoked", (fact) => facts.push(fact));
    const { status, text } = await server.call("DELETE", path, { key: owner });
    expect([status, text]).toEqual([204, ""]);
    expect((await server.call("DELETE", path, { key: owner })).status).toBe(204);
    stop();
    expect(facts).toEqual([{ tokenId: reply.body.tokenId, roomId: room }]);
    await expect(verify(reply)).rejects.toMatchObject({ code: "SVC_TOKEN_REVOKED", status: 401 });
  });

  test("an unknown token, or one of another room, is 404", async () => {
    const { room, owner, mint } = await owned();
    const { body } = await mint({});
    const other = await roomId(owner);
    for (const path of [`/v1/rooms/${room}/rtc-tokens/nothing`, `/v1/rooms/${other}/rtc-tokens/${body.tokenId}`]) {
      expect((await server.call("DELETE", path, { key: owner })).body.code).toBe("SVC_RTC_TOKEN_NOT_FOUND");
    }
  });
});

test("[5] a token of another kind, with another key or without a record is refused", async () => {
  const { verify } = server.services.rtcTokens;
  const { jwt, ids, now } = server.runtime;
  const claims = { sub: "eve", projectId, roomId: await roomId(), environment: "DEVELOPMENT", permissions: {} };
  for (const kind of ["chat-token", "session", "rtc-token"] as const) {
    const forged = await jwt.sign(kind, ids.uuid(), claims, now() + 60_000);
    await expect(verify(forged)).rejects.toMatchObject({ code: "SVC_AUTH_ERROR" });
  }
  await expect(verify("not.a.jwt")).rejects.toMatchObject({ code: "SVC_AUTH_ERROR" });
});

test("[2] a room and its token can be created in one unit of work and fail together", async () => {
  const { rooms, rtcTokens } = server.services;
  const owner = { projectId, environment: "DEVELOPMENT" as const };
  const grant = await server.runtime.write((unit) => {
    const room = rooms.create(unit, owner, { name: "composed" });
    return rtcTokens.mint(unit, { ...owner, roomId: room.id }, { participantIdentity: "host" });
  });
  const token = await rtcTokens.sign(grant, "http://localhost");
  expect((await rtcTokens.verify(token.token)).roomId).toBe(grant.room.id);
  const failing = server.runtime.write((unit) => {
    rooms.create(unit, owner, { name: "undone" });
    throw new Error("second half");
  });
  await expect(failing).rejects.toThrow("second half");
  expect(await server.runtime.write((unit) => rooms.create(unit, owner, { name: "undone" }).status)).toBe("ACTIVE");
});
