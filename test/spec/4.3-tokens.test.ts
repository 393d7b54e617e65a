import { afterAll, expect, test } from "bun:test";
import { chatRest, outcome } from "../features/chat/rest.ts";

const chat = await chatRest();
afterAll(chat.close);
const { ask, key } = chat;
const mint = (body: unknown, credential = key) => ask(credential, "POST", "/v1/chat/tokens", body);
const room = await chat.room("general", ["alice", { userId: "ada", role: "ADMIN" }]);
await chat.room("other", ["alice"]);
const read = (token: string, name = "general") => ask(token, "GET", `/v1/chat/conversations/${name}`);

test("[4.3] a server mints a chat token for one user", async () => {
  const { status, body } = await mint({ userId: "alice", conversations: ["general", room.uuid] });
  expect(status).toBe(201);
  expect(body).toEqual({
    token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
    tokenId: expect.any(String),
    userId: "alice",
    scopes: ["chat:read", "chat:send", "chat:moderate"],
    conversations: [room.id, room.id],
    endpoint: "ws://localhost/v1/chat/ws",
    expiresAt: "2026-03-01T13:00:00.000Z",
  });
  expect((await mint({ userId: "alice" })).body.conversations).toBeNull();
});

test("[2] userId matches its pattern, ttlSeconds is 60-21600 and never clamped, scopes and conversations must exist", async () => {
  const tries: [Record<string, unknown>, string][] = [
    [{ userId: undefined }, "400 SVC_VALIDATION_FAILED"],
    [{ userId: "" }, "400 SVC_VALIDATION_FAILED"],
    [{ userId: "u".repeat(128) }, "201"],
    [{ userId: "u".repeat(129) }, "400 SVC_VALIDATION_FAILED"],
    [{ userId: "has space" }, "400 SVC_VALIDATION_FAILED"],
    [{ userId: "a.b_c@d:e+f=g|h-i" }, "201"],
    [{ ttlSeconds: 59 }, "400 SVC_VALIDATION_FAILED"],
    [{ ttlSeconds: 60 }, "201"],
    [{ ttlSeconds: 21_600 }, "201"],
    [{ ttlSeconds: 21_601 }, "400 SVC_VALIDATION_FAILED"],
    [{ ttlSeconds: 60.5 }, "400 SVC_VALIDATION_FAILED"],
    [{ scopes: ["chat:read"] }, "201"],
    [{ scopes: ["chat:everything"] }, "400 SVC_VALIDATION_FAILED"],
    [{ conversations: ["nowhere"] }, "404 SVC_CONVERSATION_NOT_FOUND"],
    [{ conversations: [] }, "201"],
  ];
  for (const [input, expected] of tries) {
    const shown = JSON.stringify(input).slice(0, 50);
    expect([shown, outcome(await mint({ userId: "alice", ...input }))]).toEqual([shown, expected]);
  }
});

test("[8] the default and the requested lifetime are limited by the maximum", async () => {
  const capped = await chatRest({ CHAT_TOKEN_DEFAULT_TTL_SECONDS: 3600, CHAT_TOKEN_MAX_TTL_SECONDS: 300 });
  try {
    const tokens = "/v1/chat/tokens";
    const { body } = await capped.ask(capped.key, "POST", tokens, { userId: "x" });
    expect(Date.parse(body.expiresAt) - capped.clock.now()).toBe(300_000);
    expect((await capped.ask(capped.key, "POST", tokens, { userId: "x", ttlSeconds: 300 })).status).toBe(201);
    expect((await capped.ask(capped.key, "POST", tokens, { userId: "x", ttlSeconds: 301 })).status).toBe(400);
  } finally {
    await capped.close();
  }
});

test("[2] scopes only restrict: requesting chat:manage does not grant it", async () => {
  const { body } = await mint({ userId: "alice", scopes: ["chat:read", "chat:manage"] });
  expect(body.scopes).toEqual(["chat:read"]);
  expect((await read(body.token)).status).toBe(200);
  expect(outcome(await ask(body.token, "PATCH", "/v1/chat/conversations/general", { metadata: {} }))).toBe(
    "403 SVC_PERMISSION_DENIED",
  );
  expect(outcome(await chat.send(body.token, "general", "x"))).toBe("403 SVC_PERMISSION_DENIED");

  const sendOnly = await chat.token("alice", { scopes: ["chat:send"] });
  expect(outcome(await read(sendOnly))).toBe("403 SVC_PERMISSION_DENIED");
  expect((await chat.send(sendOnly, "general", "x")).status).toBe(201);
  // An admin's role gives it, and the token lets it through.
  const admin = await chat.token("ada");
  expect((await ask(admin, "PATCH", "/v1/chat/conversations/general", { metadata: { v: 1 } })).status).toBe(200);
});

test("[2] a token is limited to its conversations, even for a member of others", async () => {
  const token = await chat.token("alice", { conversations: ["general"] });
  expect((await read(token)).status).toBe(200);
  expect(outcome(await read(token, "other"))).toBe("404 SVC_CONVERSATION_NOT_FOUND");
  const none = await chat.token("alice", { conversations: [] });
  expect(outcome(await read(none))).toBe("404 SVC_CONVERSATION_NOT_FOUND");
});

test("[5] a token is invalid after its expiry, its revocation, and the end of its project", async () => {
  const token = await chat.token("alice", { ttlSeconds: 60 });
  chat.clock.advance(59_000);
  expect((await read(token)).status).toBe(200);
  chat.clock.advance(1000);
  expect(outcome(await read(token))).toBe("401 SVC_TOKEN_EXPIRED");

  const { body } = await mint({ userId: "alice" });
  expect((await read(body.token)).status).toBe(200);
  const path = `/v1/chat/tokens/${body.tokenId}`;
  const elsewhere = await chat.server.project();
  expect(outcome(await ask(elsewhere.key, "DELETE", path))).toBe("404 SVC_CHAT_TOKEN_NOT_FOUND");
  expect(outcome(await ask(body.token, "DELETE", path))).toBe("403 SVC_PERMISSION_DENIED");
  expect((await read(body.token)).status).toBe(200);
  expect((await ask(key, "DELETE", path)).status).toBe(204);
  expect(outcome(await read(body.token))).toBe("401 SVC_TOKEN_REVOKED");
  expect((await ask(key, "DELETE", path)).status).toBe(204);
  expect(outcome(await ask(key, "DELETE", "/v1/chat/tokens/ctk_none"))).toBe("404 SVC_CHAT_TOKEN_NOT_FOUND");

  const owner = await chat.server.session({ projectId: chat.projectId, role: "OWNER" });
  const last = await chat.token("alice");
  expect((await read(last)).status).toBe(200);
  expect((await ask(owner.token, "DELETE", `/v1/projects/${chat.projectId}`)).status).toBeLessThan(300);
  expect(outcome(await read(last))).toBe("401 SVC_AUTH_ERROR");
});

test("[5] neither another credential nor a forged one is accepted as a chat token", async () => {
  const fresh = await chatRest();
  try {
    await fresh.room("general", ["alice"]);
    const token = await fresh.token("alice");
    const rtcRoom = (await fresh.ask(fresh.key, "POST", "/v1/rooms", { name: "r" })).body;
    const rtc = (
      await fresh.ask(fresh.key, "POST", `/v1/rooms/${rtcRoom.id}/rtc-tokens`, { participantIdentity: "alice" })
    ).body;
    const session = await fresh.server.session({ projectId: fresh.projectId, role: "OWNER" });
    const [header, payload, signature = ""] = token.split(".");
    const claims = JSON.parse(Buffer.from(payload ?? "", "base64url").toString());
    const widened = Buffer.from(JSON.stringify({ ...claims, sub: "bob" })).toString("base64url");
    const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
    const forged = [
      rtc.token,
      session.token,
      `${header}.${widened}.${signature}`,
      `${header}.${payload}.${signature.slice(0, -2)}AA`,
      `${none}.${payload}.`,
      "x",
    ];
    for (const credential of forged) {
      expect(outcome(await fresh.ask(credential, "GET", "/v1/chat/conversations"))).toBe("401 SVC_AUTH_ERROR");
    }
    // The token gives access to chat only.
    for (const path of ["/v1/project", "/v1/rooms", `/v1/projects/${fresh.projectId}/chat/overview`]) {
      expect(outcome(await fresh.ask(token, "GET", path))).toBe("401 SVC_AUTH_ERROR");
    }
  } finally {
    await fresh.close();
  }
});

test("[1] Idempotency-Key returns the same token for five minutes, from memory only", async () => {
  const fresh = await chatRest();
  try {
    const headers = { "idempotency-key": "mint-1" };
    const again = () => fresh.ask(fresh.key, "POST", "/v1/chat/tokens", { userId: "alice" }, headers);
    const first = await again();
    fresh.clock.advance(299_000);
    const replay = await again();
    expect([replay.text, replay.headers.get("idempotent-replayed")]).toEqual([first.text, "true"]);
    fresh.clock.advance(2000);
    expect((await again()).body.tokenId).not.toBe(first.body.tokenId);
    const stored = JSON.stringify(fresh.server.runtime.db.$client.query("SELECT * FROM idempotency_keys").all());
    expect(stored).not.toContain(first.body.token);
  } finally {
    await fresh.close();
  }
});

test("[5] a browser origin that the project does not allow is refused, even with a chat token", async () => {
  const fresh = await chatRest();
  try {
    await fresh.room("general", ["alice"]);
    const session = await fresh.server.session({ projectId: fresh.projectId, role: "OWNER" });
    const allowed = { allowedOrigins: ["https://app.example"], allowLocalhostOrigins: false };
    await fresh.ask(session.token, "PATCH", `/v1/projects/${fresh.projectId}/allowed-origins`, allowed);
    const token = await fresh.token("alice");
    const from = async (origin: string) =>
      outcome(await fresh.ask(token, "GET", "/v1/chat/conversations/general", undefined, { origin }));
    expect(await from("https://app.example")).toBe("200");
    expect(await from("https://evil.example")).toBe("403 SVC_ORIGIN_NOT_ALLOWED");
    expect((await fresh.ask(token, "GET", "/v1/chat/conversations/general")).status).toBe(200);
  } finally {
    await fresh.close();
  }
});
