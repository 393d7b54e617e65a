import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";

const server = testServer();
afterAll(server.close);

const create = (token: string, body: unknown, headers: Record<string, string> = {}) =>
  server.call("POST", "/v1/projects", { key: token, body, headers });

test("[2] the creator of a project is its owner", async () => {
  const { token } = await server.session();
  const { status, body } = await create(token, { name: "Ship", description: "Calls at sea" });
  expect(status).toBe(201);
  expect(body).toEqual({
    id: expect.any(String),
    name: "Ship",
    description: "Calls at sea",
    status: "ACTIVE",
    allowedOrigins: [],
    allowLocalhostOrigins: true,
    createdAt: "2026-03-01T12:00:00.000Z",
    updatedAt: "2026-03-01T12:00:00.000Z",
    role: "OWNER",
  });
  expect((await server.call("GET", `/v1/projects/${body.id}`, { key: token })).body).toEqual(body);
});

test("[2] a name has 1-80 characters and a description 0-500, counted in code points", async () => {
  const { token } = await server.session();
  const statusOf = async (body: unknown) => (await create(token, body)).status;
  expect(await statusOf({ name: "" })).toBe(400);
  expect(await statusOf({ name: "x" })).toBe(201);
  expect(await statusOf({ name: "🚀".repeat(80) })).toBe(201);
  expect(await statusOf({ name: "x".repeat(81) })).toBe(400);
  expect(await statusOf({ name: "🚀".repeat(81) })).toBe(400);
  expect(await statusOf({ name: "\ud800" })).toBe(400);
  expect(await statusOf({})).toBe(400);
  expect(await statusOf({ name: 7 })).toBe(400);
  expect(await statusOf({ name: "x", description: "" })).toBe(201);
  expect(await statusOf({ name: "x", description: "x".repeat(500) })).toBe(201);
  expect(await statusOf({ name: "x", description: "x".repeat(501) })).toBe(400);
});

test("[2] an update changes what it names and nothing else", async () => {
  const { token } = await server.session();
  const { body: project } = await create(token, { name: "Before", description: "kept" });
  server.clock.advance(1000);
  const patch = (body: unknown) => server.call("PATCH", `/v1/projects/${project.id}`, { key: token, body });
  const renamed = await patch({ name: "After", status: "ARCHIVED", role: "VIEWER" });
  expect(renamed.body).toEqual({ ...project, name: "After", updatedAt: "2026-03-01T12:00:01.000Z" });
  expect((await patch({ description: null })).body).toMatchObject({ name: "After", description: null });
  expect((await patch({ name: "" })).status).toBe(400);
});

test("[1] the list shows the caller's own projects, newest first, page by page", async () => {
  const { token } = await server.session();
  await create((await server.session()).token, { name: "somebody else's" });
  for (const name of ["one", "two", "three"]) await create(token, { name });
  const read = (path: string) => server.call("GET", path, { key: token });

  const first = await read("/v1/projects?limit=2");
  const names = (text: string) => (JSON.parse(text) as { name: string }[]).map(({ name }) => name);
  expect(names(first.text)).toEqual(["three", "two"]);
  const next = /^<(\/v1\/projects\?[^>]+)>; rel="next"$/.exec(first.headers.get("link") ?? "")?.[1] ?? "";
  const second = await read(next);
  expect(names(second.text)).toEqual(["one"]);
  expect(second.headers.has("link")).toBe(false);

  expect((await read("/v1/projects?limit=0")).status).toBe(400);
  expect((await read("/v1/projects?limit=200")).status).toBe(200);
  expect((await read("/v1/projects?limit=201")).status).toBe(400);
  expect((await read("/v1/projects?cursor=nonsense")).body.code).toBe("SVC_INVALID_CURSOR");
});

test("[2] archiving stops the keys and every change, and keeps the data readable", async () => {
  const { projectId, key } = await server.project();
  const { token } = await server.session({ projectId, role: "OWNER" });
  const path = `/v1/projects/${projectId}`;
  expect((await server.call("GET", "/v1/project", { key })).status).toBe(200);

  const archived = await server.call("DELETE", path, { key: token });
  expect([archived.status, archived.text]).toEqual([204, ""]);
  const refused = await server.call("GET", "/v1/project", { key });
  expect([refused.status, refused.body.code]).toEqual([401, "SVC_AUTH_ERROR"]);

  expect((await server.call("GET", path, { key: token })).body).toMatchObject({ status: "ARCHIVED", role: "OWNER" });
  expect((await server.call("GET", `${path}/audit-logs`, { key: token })).status).toBe(200);
  for (const [method, sub, body] of [
    ["PATCH", "", { name: "new" }],
    ["PATCH", "/allowed-origins", { allowedOrigins: [] }],
    ["POST", "/api-keys", { name: "new" }],
    ["POST", "/members", { email: "a@example.com", role: "VIEWER" }],
    ["POST", "/rooms", { name: "new" }],
  ] as const) {
    const { status, body: answer } = await server.call(method, path + sub, { key: token, body });
    expect([sub, status, answer.code]).toEqual([sub, 409, "SVC_CONFLICT"]);
  }
  expect((await server.call("DELETE", path, { key: token })).status).toBe(204);

  const ids = async (query: string) =>
    (JSON.parse((await server.call("GET", `/v1/projects${query}`, { key: token })).text) as { id: string }[]).map(
      ({ id }) => id,
    );
  expect(await ids("?status=ACTIVE")).toEqual([]);
  expect(await ids("?status=ARCHIVED")).toEqual([projectId]);
});

test("[1] 200 concurrent requests with one Idempotency-Key create one project", async () => {
  const { token } = await server.session();
  const headers = { "idempotency-key": "one-and-only" };
  const replies = await Promise.all(Array.from({ length: 200 }, () => create(token, { name: "once" }, headers)));
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([201]));
  expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
  expect(replies.filter(({ headers }) => headers.get("idempotent-replayed") === "true").length).toBe(199);
  const listed = await server.call("GET", "/v1/projects", { key: token });
  expect(JSON.parse(listed.text)).toHaveLength(1);

  const other = await create(token, { name: "another" }, headers);
  expect([other.status, other.body.code]).toEqual([422, "SVC_IDEMPOTENCY_KEY_REUSED"]);
});
