import { afterAll, expect, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);
const { key, projectId } = await server.project();

type Credentials = {
  streamId: string;
  identity: string;
  role: string;
  rtc: { token: string; tokenId: string; roomId: string; permissions: object; expiresAt: string };
  chat: { token: string; scopes: string[]; conversations: string[] };
};

const api = (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
  server.call(method, `/v1/live-streams${path}`, { key, body, headers });
/** A window of its own for each test, so that the budgets do not meet. */
async function create() {
  server.clock.advance(60_000);
  return (await api("POST", "", { title: "t", hostIdentity: "host" })).body as Record<string, string>;
}
const mint = async (streamId: string | undefined, kind: "hosts" | "viewer-tokens", body: object) => {
  const reply = await api("POST", `/${streamId}/${kind}`, body);
  return { ...reply, creds: reply.body as unknown as Credentials };
};
const chatAs = (token: string, method: string, path: string, body?: unknown) =>
  server.call(method, `/v1/chat/conversations/${path}`, { key: token, body });

const EVERYTHING = {
  join: true,
  subscribe: true,
  publish: true,
  publishAudio: true,
  publishVideo: true,
  publishData: true,
  updateMetadata: false,
};
const WATCH_ONLY = { ...EVERYTHING, publish: false, publishAudio: false, publishVideo: false, publishData: false };

test("[4.5] hosts and co-hosts get credentials that publish and moderate, and the host stays HOST", async () => {
  const { id, roomId, conversationId } = await create();
  for (const [body, role] of [
    [{ identity: "host" }, "HOST"],
    [{ identity: "host", role: "CO_HOST" }, "HOST"],
    [{ identity: "co" }, "CO_HOST"],
    [{ identity: "co", role: "CO_HOST" }, "CO_HOST"],
  ] as const) {
    const { status, creds } = await mint(id, "hosts", body);
    expect(status).toBe(201);
    expect(creds).toMatchObject({
      streamId: id,
      identity: body.identity,
      role,
      rtc: { roomId, participantIdentity: body.identity, permissions: EVERYTHING },
      chat: {
        userId: body.identity,
        scopes: ["chat:read", "chat:send", "chat:moderate"],
        conversations: [conversationId],
      },
    });
    expect((await server.runtime.jwt.verify("rtc-token", creds.rtc.token)).permissions).toEqual(EVERYTHING);
  }
  const second = await mint(id, "hosts", { identity: "other", role: "HOST" });
  expect([second.status, second.body.code]).toEqual([409, "SVC_CONFLICT"]);
  for (const bad of [
    {},
    { identity: "" },
    { identity: "x".repeat(129) },
    { identity: "a b" },
    { identity: "x", role: "GOD" },
  ]) {
    expect((await mint(id, "hosts", bad)).status).toBe(400);
  }
});

test("[2] a viewer's credentials are subscribe-only, and no field of the body extends them", async () => {
  const { id, conversationId } = await create();
  for (const body of [
    { identity: "viewer" },
    {
      identity: "viewer",
      permissions: EVERYTHING,
      role: "HOST",
      scopes: ["chat:manage"],
      publish: true,
      ttlSeconds: 21_600,
    },
  ]) {
    const { status, creds } = await mint(id, "viewer-tokens", body);
    expect(status).toBe(201);
    expect(creds).toMatchObject({
      role: "VIEWER",
      rtc: { permissions: WATCH_ONLY },
      chat: { scopes: ["chat:read", "chat:send"], conversations: [conversationId] },
    });
    expect((await server.runtime.jwt.verify("rtc-token", creds.rtc.token)).permissions).toEqual(WATCH_ONLY);
    expect(Date.parse(creds.rtc.expiresAt) - server.clock.now()).toBe(600_000);
  }
  for (const bad of [{}, { identity: "" }, { identity: "x".repeat(129) }, { identity: "a/b" }]) {
    expect((await mint(id, "viewer-tokens", bad)).status).toBe(400);
  }
});

test("[4.5] credentials can be minted before the start; viewers can chat but not moderate", async () => {
  const { id, conversationId = "" } = await create();
  const host = (await mint(id, "hosts", { identity: "host" })).creds;
  const viewer = (await mint(id, "viewer-tokens", { identity: "viewer" })).creds;
  const said = await chatAs(viewer.chat.token, "POST", `${conversationId}/messages`, { text: "first" });
  expect(said.status).toBe(201);
  const answer = await chatAs(host.chat.token, "POST", `${conversationId}/messages`, { text: "welcome" });
  const remove = (token: string, messageId: unknown) =>
    server.call("DELETE", `/v1/chat/messages/${messageId}`, { key: token });
  expect((await remove(viewer.chat.token, answer.body.id)).status).toBe(403);
  expect((await remove(host.chat.token, said.body.id)).body.deleted).toBe(true);
  // For this stream's conversation only.
  const { conversationId: elsewhere = "" } = await create();
  expect((await chatAs(viewer.chat.token, "GET", elsewhere)).status).toBe(404);
});

test("[4.5] a removed co-host loses room and chat at once, keeps their messages, and can be added again", async () => {
  const { id, conversationId = "" } = await create();
  const { creds } = await mint(id, "hosts", { identity: "co@example.com" });
  await chatAs(creds.chat.token, "POST", `${conversationId}/messages`, { text: "mine" });
  const removed: object[] = [];
  const stop = server.runtime.bus.on("participantRemoved", (fact) => void removed.push(fact));
  const gone = await api("DELETE", `/${id}/hosts/${encodeURIComponent("co@example.com")}`);
  stop();
  expect([gone.status, gone.text]).toEqual([204, ""]);
  expect(removed).toEqual([{ roomId: creds.rtc.roomId, identity: "co@example.com" }]);
  expect(server.services.rtcTokens.isRevoked(creds.rtc.tokenId)).toBe(true);
  expect((await chatAs(creds.chat.token, "GET", conversationId)).body.code).toBe("SVC_TOKEN_REVOKED");
  const history = await server.call("GET", `/v1/chat/conversations/${conversationId}/messages`, { key });
  expect(history.body.data).toMatchObject([{ text: "mine", senderId: "co@example.com" }]);

  expect((await api("DELETE", `/${id}/hosts/co@example.com`)).body.code).toBe("SVC_HOST_NOT_FOUND");
  expect((await api("DELETE", `/${id}/hosts/host`)).body.code).toBe("SVC_CONFLICT");
  const again = (await mint(id, "hosts", { identity: "co@example.com" })).creds;
  expect((await chatAs(again.chat.token, "GET", conversationId)).status).toBe(200);
  // The removed co-host returns as a viewer, without the moderator's permissions.
  await api("DELETE", `/${id}/hosts/co@example.com`);
  const watching = (await mint(id, "viewer-tokens", { identity: "co@example.com" })).creds;
  const members = await server.call("GET", `/v1/chat/conversations/${conversationId}/members`, { key });
  expect(members.body).toContainEqual(expect.objectContaining({ userId: "co@example.com", role: "MEMBER" }));
  expect((await chatAs(watching.chat.token, "GET", conversationId)).status).toBe(200);
});

test("[4.5] a removed viewer is disconnected and banned from chat and new tokens until the ban is lifted", async () => {
  const { id, conversationId = "" } = await create();
  const { creds } = await mint(id, "viewer-tokens", { identity: "troll" });
  const removed: object[] = [];
  const stop = server.runtime.bus.on("participantRemoved", (fact) => void removed.push(fact));
  expect((await api("DELETE", `/${id}/viewers/troll`)).status).toBe(204);
  stop();
  expect(removed).toEqual([{ roomId: creds.rtc.roomId, identity: "troll" }]);
  expect(server.services.rtcTokens.isRevoked(creds.rtc.tokenId)).toBe(true);
  expect((await chatAs(creds.chat.token, "GET", conversationId)).body.code).toBe("SVC_BANNED");
  for (const kind of ["viewer-tokens", "hosts"] as const) {
    const refused = await mint(id, kind, { identity: "troll" });
    expect([refused.status, refused.body.code]).toEqual([403, "SVC_BANNED"]);
  }
  expect((await api("DELETE", `/${id}/viewers/nobody`)).body.code).toBe("SVC_MEMBER_NOT_FOUND");
  await mint(id, "hosts", { identity: "host" });
  expect((await api("DELETE", `/${id}/viewers/host`)).body.code).toBe("SVC_MEMBER_NOT_FOUND");

  const member = `/v1/chat/conversations/${conversationId}/members/troll`;
  await server.call("PATCH", member, { key, body: { status: "ACTIVE" } });
  expect((await mint(id, "viewer-tokens", { identity: "troll" })).status).toBe(201);
});

test("[4.5] leave returns 204 without a body for any identity", async () => {
  const { id } = await create();
  await mint(id, "viewer-tokens", { identity: "v" });
  for (const identity of ["v", "v", "never-seen"]) {
    const { status, text } = await api("POST", `/${id}/leave`, { identity });
    expect([status, text]).toEqual([204, ""]);
  }
  for (const bad of [{}, { identity: "" }, { identity: "x".repeat(129) }]) {
    expect((await api("POST", `/${id}/leave`, bad)).status).toBe(400);
  }
});

for (const [path, limit] of [
  ["hosts", 60],
  ["viewer-tokens", 120],
] as const) {
  test(`[8] POST …/${path}: ${limit} in a window, failed ones count; a replay returns the same credentials`, async () => {
    const { id } = await create();
    const post = (body: object, headers?: Record<string, string>) => api("POST", `/${id}/${path}`, body, headers);
    const first = await post({ identity: "a" }, { "idempotency-key": "k" });
    expect(first.headers.get("ratelimit-limit")).toBe(String(limit));
    expect(first.headers.get("ratelimit-remaining")).toBe(String(limit - 1));
    expect(first.headers.get("ratelimit-reset")).toBe("60");
    const replay = await post({ identity: "a" }, { "idempotency-key": "k" });
    expect([replay.status, replay.body, replay.headers.get("idempotent-replayed")]).toEqual([201, first.body, "true"]);
    expect((await post({ identity: "b" }, { "idempotency-key": "k" })).body.code).toBe("SVC_IDEMPOTENCY_KEY_REUSED");
    for (let n = 4; n <= limit; n++) expect((await post({})).status).toBe(400);
    const over = await post({ identity: "a" });
    expect([over.status, over.body.code, over.body.retryAfterSeconds]).toEqual([429, "SVC_RATE_LIMITED", 60]);
    expect(over.headers.get("retry-after")).toBe("60");
    // Another key of the same project has a budget of its own.
    const { key: other } = (await server.runtime.write((unit) =>
      server.services.apiKeys.create(
        unit,
        projectId,
        { name: "other", environment: "DEVELOPMENT" },
        { actor: null, request: null, environment: "DEVELOPMENT" },
      ),
    )) as { key: string };
    const reply = await server.call("POST", `/v1/live-streams/${id}/${path}`, { key: other, body: { identity: "a" } });
    expect(reply.status).toBe(201);
  });
}
