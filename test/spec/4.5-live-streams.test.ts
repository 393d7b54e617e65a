import { afterAll, expect, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);
const { key, projectId } = await server.project();
const { token } = await server.session({ projectId, role: "DEVELOPER" });

const api = (method: string, path = "", body?: unknown, headers?: Record<string, string>) =>
  server.call(method, `/v1/live-streams${path}`, { key, body, headers });
const dashboard = (method: string, path = "", body?: unknown) =>
  server.call(method, `/v1/projects/${projectId}/live-streams${path}`, { key: token, body });
const create = async (input: object = {}) =>
  (await api("POST", "", { title: "Launch", hostIdentity: "host", ...input })).body as Record<string, string>;

test("[4.5] creating provisions an RTC room, a conversation and the HOST, and returns 201", async () => {
  const { status, body } = await api("POST", "", { title: "Launch", hostIdentity: "host" });
  expect(status).toBe(201);
  expect(body).toEqual({
    id: expect.stringMatching(/^stream_[0-9A-Za-z]{24}$/),
    title: "Launch",
    description: null,
    thumbnailUrl: null,
    category: null,
    tags: [],
    language: null,
    visibility: "PUBLIC",
    metadata: null,
    status: "CREATED",
    hostIdentity: "host",
    roomId: expect.any(String),
    conversationId: expect.stringMatching(/^conv_/),
    viewerCount: 0,
    peakViewerCount: 0,
    scheduledAt: null,
    startedAt: null,
    endedAt: null,
    createdAt: "2026-03-01T12:00:00.000Z",
    updatedAt: "2026-03-01T12:00:00.000Z",
  });
  const room = await server.call("GET", `/v1/rooms/${body.roomId}`, { key });
  expect(room.body).toMatchObject({ status: "ACTIVE", environment: "DEVELOPMENT" });
  const conversation = await server.call("GET", `/v1/chat/conversations/${body.conversationId}`, { key });
  expect(conversation.body).toMatchObject({ type: "ROOM", roomId: body.roomId, memberCount: 1 });
  expect((await dashboard("GET", `/${body.id}`)).body.hosts).toEqual([
    { identity: "host", role: "HOST", addedAt: "2026-03-01T12:00:00.000Z" },
  ]);
});

test("[4.5] creating is all or nothing: a failure leaves neither room nor conversation", async () => {
  const { runtime, services } = server;
  const counts = () =>
    ["rooms", "conversations", "live_streams", "live_stream_hosts", "webhook_events"].map(
      (table) => runtime.db.$client.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n,
    );
  const before = counts();
  const stop = runtime.bus.inTransaction("webhook", (_unit, { type }) => {
    if (type === "live_stream.created") throw new Error("no");
  });
  const input = { title: "x", hostIdentity: "host" };
  const failed = await runtime
    .write((unit) => services.liveStreams.streams.create(unit, { projectId, environment: "DEVELOPMENT" }, input))
    .catch((error: Error) => error);
  stop();
  expect(failed).toBeInstanceOf(Error);
  expect(counts()).toEqual(before);
});

test("[2] every field accepts its limits and nothing beyond", async () => {
  const wide = "𝔸";
  for (const [field, good, bad] of [
    ["title", ["x", wide.repeat(200)], ["", "x".repeat(201), 5, null]],
    ["hostIdentity", ["x", "x".repeat(128), "a.b_c@d:e+f=g|h-i"], ["", "x".repeat(129), "has space", "ü"]],
    ["description", ["", wide.repeat(2000), null], ["x".repeat(2001), 5]],
    ["thumbnailUrl", ["", "x".repeat(2048)], ["x".repeat(2049)]],
    ["category", ["", "x".repeat(64)], ["x".repeat(65)]],
    ["language", ["", "x".repeat(16)], ["x".repeat(17)]],
    ["tags", [[], ["a", "b"]], ["a", [1], [""]]],
    ["visibility", ["PUBLIC", "PRIVATE", "AUTHENTICATED"], ["public", "SECRET", ""]],
    ["metadata", [{}, { a: "x".repeat(4088) }, null], [{ a: "x".repeat(4089) }, [], "x", 5]],
    ["scheduledAt", ["2027-01-01T00:00:00Z", "2027-01-01T00:00:00.000+02:00", null], ["tomorrow", "", 5]],
  ] as [string, unknown[], unknown[]][]) {
    for (const value of good) {
      const { status } = await dashboard("POST", "", { title: "t", hostIdentity: "host", [field]: value });
      expect([field, value, status]).toEqual([field, value, 201]);
    }
    for (const value of bad) {
      const { status, body } = await dashboard("POST", "", { title: "t", hostIdentity: "host", [field]: value });
      expect([field, value, status, body.code]).toEqual([field, value, 400, "SVC_VALIDATION_FAILED"]);
    }
  }
  for (const missing of [{ title: "t" }, { hostIdentity: "h" }, {}]) {
    expect((await dashboard("POST", "", missing)).status).toBe(400);
  }
});

test("[3] a stream goes from CREATED to LIVE to ENDED; any other transition is 409 with the current status", async () => {
  const { id } = await create({ scheduledAt: "2026-03-01T12:00:01.000Z" });
  const refused = async (action: string, status: string) => {
    const reply = await api("POST", `/${id}/${action}`);
    expect([reply.status, reply.body.code, reply.body.status]).toEqual([409, "SVC_STREAM_INVALID_STATE", status]);
  };
  await refused("end", "CREATED");
  // When the scheduled time passes, nothing happens by itself.
  server.clock.advance(10_000);
  expect((await api("GET", `/${id}`)).body).toMatchObject({ status: "CREATED", startedAt: null });

  const startedAt = new Date(server.clock.now()).toISOString();
  const started = await api("POST", `/${id}/start`);
  expect([started.status, started.body.status, started.body.startedAt]).toEqual([200, "LIVE", startedAt]);
  await refused("start", "LIVE");
  server.clock.advance(60_000);
  const ended = await api("POST", `/${id}/end`);
  expect([ended.status, ended.body.status]).toEqual([200, "ENDED"]);
  expect(ended.body.endedAt).toBe(new Date(server.clock.now()).toISOString());
  await refused("start", "ENDED");
  await refused("end", "ENDED");
  for (const [path, body] of [
    ["hosts", { identity: "late" }],
    ["viewer-tokens", { identity: "late" }],
  ] as const) {
    const reply = await api("POST", `/${id}/${path}`, body);
    expect([reply.status, reply.body.code, reply.body.status]).toEqual([409, "SVC_STREAM_INVALID_STATE", "ENDED"]);
  }
});

test("[3] ending closes the room with the reason stream_ended and keeps the chat", async () => {
  const { id, roomId, conversationId } = await create();
  await server.call("POST", `/v1/chat/conversations/${conversationId}/messages`, { key, body: { text: "hello" } });
  const closed: object[] = [];
  const stop = server.runtime.bus.on("roomClosed", (fact) => void closed.push(fact));
  await api("POST", `/${id}/start`);
  await api("POST", `/${id}/end`);
  stop();
  expect(closed).toEqual([{ roomId, projectId, environment: "DEVELOPMENT", reason: "stream_ended" }]);
  expect((await server.call("GET", `/v1/rooms/${roomId}`, { key })).body.status).toBe("CLOSED");
  const history = await server.call("GET", `/v1/chat/conversations/${conversationId}/messages`, { key });
  expect(history.text).toContain("hello");
});

test("[4.5] PATCH changes the given fields in every state, and nothing else", async () => {
  const { id } = await create({ description: "before", tags: ["a"], metadata: { a: 1 }, language: "el" });
  server.clock.advance(1000);
  const { body } = await api("PATCH", `/${id}`, { title: "After", tags: [], status: "LIVE", hostIdentity: "eve" });
  expect(body).toMatchObject({
    title: "After",
    tags: [],
    description: "before",
    metadata: { a: 1 },
    status: "CREATED",
    hostIdentity: "host",
    updatedAt: new Date(server.clock.now()).toISOString(),
  });
  expect((await api("PATCH", `/${id}`, { description: "", metadata: null })).body).toMatchObject({
    description: null,
    metadata: null,
    language: "el",
  });
  for (const bad of [
    { title: "" },
    { title: "x".repeat(201) },
    { visibility: "X" },
    { metadata: { a: "x".repeat(4089) } },
  ]) {
    expect((await api("PATCH", `/${id}`, bad)).status).toBe(400);
  }
  await api("POST", `/${id}/start`);
  await api("POST", `/${id}/end`);
  expect((await api("PATCH", `/${id}`, { title: "Archive" })).body).toMatchObject({
    title: "Archive",
    status: "ENDED",
  });
});

test("[4.5] the list is newest first, filtered by visibility and status, page by page", async () => {
  const own = await server.project();
  const as = (method: string, path: string, body?: unknown) =>
    server.call(method, `/v1/live-streams${path}`, { key: own.key, body });
  const ids: string[] = [];
  for (const visibility of ["PUBLIC", "PRIVATE", "PUBLIC"]) {
    const { body } = await as("POST", "", { title: "t", hostIdentity: "h", visibility });
    ids.unshift(String(body.id));
  }
  const idsOf = (body: unknown) => (body as { id: string }[]).map(({ id }) => id);
  expect(idsOf((await as("GET", "")).body)).toEqual(ids);
  expect(idsOf((await as("GET", "?visibility=PRIVATE")).body)).toEqual(ids.slice(1, 2));
  await as("POST", `/${ids[2]}/start`);
  expect(idsOf((await as("GET", "?status=LIVE&visibility=PUBLIC")).body)).toEqual(ids.slice(2));
  const first = await as("GET", "?limit=2");
  const next = /<([^>]+)>; rel="next"/.exec(first.headers.get("link") ?? "")?.[1] ?? "";
  const second = await server.call("GET", next, { key: own.key });
  expect([...idsOf(first.body), ...idsOf(second.body)]).toEqual(ids);
  for (const query of ["?visibility=SECRET", "?status=OVER", "?limit=0", "?limit=201", "?cursor=x"]) {
    expect((await as("GET", query)).status).toBe(400);
  }
});

test("[1] a key of the other environment or project finds nothing", async () => {
  const { id } = await create();
  const production = (await server.runtime.write((unit) =>
    server.services.apiKeys.create(
      unit,
      projectId,
      { name: "p", environment: "PRODUCTION" },
      { actor: null, request: null, environment: "PRODUCTION" },
    ),
  )) as { key: string };
  const other = await server.project();
  for (const stranger of [production.key, other.key]) {
    for (const [method, path] of [
      ["GET", ""],
      ["PATCH", ""],
      ["POST", "/start"],
      ["POST", "/end"],
      ["POST", "/hosts"],
      ["DELETE", "/hosts/host"],
      ["POST", "/viewer-tokens"],
      ["DELETE", "/viewers/v"],
      ["POST", "/leave"],
    ] as const) {
      const body = method === "GET" || method === "DELETE" ? undefined : { identity: "x" };
      const reply = await server.call(method, `/v1/live-streams/${id}${path}`, { key: stranger, body });
      expect([path, reply.status, reply.body.code]).toEqual([path, 404, "SVC_STREAM_NOT_FOUND"]);
    }
    expect((await server.call("GET", "/v1/live-streams", { key: stranger })).text).not.toContain(id ?? "?");
  }
  expect((await api("GET", `/${id}`)).body.status).toBe("CREATED");
});

test("[4.5] sessions list, create, read with hosts, change and end; a VIEWER only reads", async () => {
  const created = await dashboard("POST", "?environment=PRODUCTION", { title: "P", hostIdentity: "h" });
  expect(created.status).toBe(201);
  const { id } = created.body;
  const production = await dashboard("GET", "?environment=PRODUCTION");
  expect(production.text).toContain(String(id));
  expect((await dashboard("GET")).text).not.toContain(String(id));
  expect((await dashboard("GET", `/${id}`)).body).toMatchObject({
    title: "P",
    hosts: [{ identity: "h", role: "HOST" }],
  });
  expect((await dashboard("PATCH", `/${id}`, { title: "Q" })).body.title).toBe("Q");
  expect((await dashboard("POST", `/${id}/end`)).body).toMatchObject({
    code: "SVC_STREAM_INVALID_STATE",
    status: "CREATED",
  });

  const { id: live } = await create();
  await api("POST", `/${live}/start`);
  const viewer = await server.session({ projectId, role: "VIEWER" });
  const asViewer = (method: string, path: string, body?: unknown) =>
    server.call(method, `/v1/projects/${projectId}/live-streams${path}`, { key: viewer.token, body });
  expect((await asViewer("GET", `/${live}`)).status).toBe(200);
  for (const [method, path] of [
    ["POST", ""],
    ["PATCH", `/${live}`],
    ["POST", `/${live}/end`],
  ] as const) {
    expect((await asViewer(method, path, { title: "x", hostIdentity: "h" })).body.code).toBe("SVC_PERMISSION_DENIED");
  }
  expect((await dashboard("POST", `/${live}/end`)).body.status).toBe("ENDED");
  const stranger = await server.session({ role: "OWNER" });
  const sideways = await server.call("GET", `/v1/projects/${stranger.projectId}/live-streams/${live}`, {
    key: stranger.token,
  });
  expect(sideways.body.code).toBe("SVC_STREAM_NOT_FOUND");
});

test("[8] POST /v1/live-streams allows 30 requests per window, then 429, and a replay creates no second stream", async () => {
  const own = await server.project();
  const post = (headers: Record<string, string> = {}) =>
    server.call("POST", "/v1/live-streams", { key: own.key, body: { title: "t", hostIdentity: "h" }, headers });
  const first = await post({ "idempotency-key": "once" });
  expect([first.headers.get("ratelimit-limit"), first.headers.get("ratelimit-remaining")]).toEqual(["30", "29"]);
  const replay = await post({ "idempotency-key": "once" });
  expect([replay.status, replay.headers.get("idempotent-replayed")]).toEqual([201, "true"]);
  expect(replay.body).toEqual(first.body);
  for (let n = 3; n <= 30; n++) expect((await post()).status).toBe(201);
  const over = await post();
  expect([over.status, over.body.code]).toEqual([429, "SVC_RATE_LIMITED"]);
  expect(over.headers.get("retry-after")).toBe(String(over.body.retryAfterSeconds));
  server.clock.advance(60_000);
  expect((await post()).status).toBe(201);
  const list = (await server.call("GET", "/v1/live-streams", { key: own.key })).body as unknown as unknown[];
  expect(list).toHaveLength(30);
});
