import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";

const server = testServer({ RATE_LIMIT_API_KEYS: 1000 });
afterAll(server.close);

const { token, projectId } = await server.session({ role: "DEVELOPER" });
const path = `/v1/projects/${projectId}/api-keys`;
const create = (body: unknown, query = "") => server.call("POST", path + query, { key: token, body });
const list = async (query = "") =>
  JSON.parse((await server.call("GET", path + query, { key: token })).text) as Record<string, unknown>[];

test("[5] a key is shown whole once, and works at once in its own environment", async () => {
  const { status, body } = await create({ name: "backend", environment: "PRODUCTION" });
  expect(status).toBe(201);
  const { key, ...shown } = body as { key: string };
  expect(key).toMatch(/^svk_prod_[A-Za-z0-9]{16}\.[A-Za-z0-9_-]{43}$/);
  expect(shown).toEqual({
    id: expect.any(String),
    projectId,
    publicId: key.slice("svk_prod_".length, key.indexOf(".")),
    name: "backend",
    environment: "PRODUCTION",
    status: "ACTIVE",
    lastUsedAt: null,
    createdAt: "2026-03-01T12:00:00.000Z",
    revokedAt: null,
  });
  const read = await server.call("GET", "/v1/project", { key });
  expect(read.body).toMatchObject({ id: projectId, environment: "PRODUCTION" });
  const listed = await server.call("GET", path, { key: token });
  expect(listed.text).not.toContain(key.slice(key.indexOf(".")));
});

test("[5] a key with the other environment's prefix, or with one wrong character, is refused", async () => {
  const { key } = (await create({ name: "dev" })).body as { key: string };
  expect(key).toStartWith("svk_dev_");
  const last = key.at(-1) === "A" ? "B" : "A";
  for (const forged of [key.replace("_dev_", "_prod_"), key.slice(0, -1), `${key}A`, `${key.slice(0, -1)}${last}`]) {
    expect((await server.call("GET", "/v1/project", { key: forged })).body.code).toBe("SVC_AUTH_ERROR");
  }
  expect((await server.call("GET", "/v1/project", { key })).status).toBe(200);
});

test("[1] without an environment in the body, the key gets that of the query, or DEVELOPMENT", async () => {
  expect((await create({ name: "x" })).body.environment).toBe("DEVELOPMENT");
  expect((await create({ name: "x" }, "?environment=PRODUCTION")).body.environment).toBe("PRODUCTION");
  expect((await create({ name: "x", environment: "STAGING" })).status).toBe(400);
  expect((await create({ name: "x" }, "?environment=STAGING")).status).toBe(400);
});

test("[2] a name has 1-80 characters", async () => {
  expect((await create({ name: "" })).status).toBe(400);
  expect((await create({ name: "x" })).status).toBe(201);
  expect((await create({ name: "x".repeat(80) })).status).toBe(201);
  expect((await create({ name: "x".repeat(81) })).status).toBe(400);
});

test("[5] a revoked key stops at once, stays listed, and can be revoked again", async () => {
  const { id, key } = (await create({ name: "short-lived" })).body as { id: string; key: string };
  expect((await server.call("GET", "/v1/project", { key })).status).toBe(200);
  for (let times = 0; times < 2; times++) {
    const { status, text } = await server.call("DELETE", `${path}/${id}`, { key: token });
    expect([status, text]).toEqual([204, ""]);
  }
  const { status, body } = await server.call("GET", "/v1/project", { key });
  expect([status, body.code]).toEqual([401, "SVC_AUTH_ERROR"]);
  expect((await list()).find((one) => one.id === id)).toMatchObject({
    status: "REVOKED",
    revokedAt: expect.any(String),
  });
});

test("[5] a key of another project is not found", async () => {
  const other = await server.project();
  const stranger = await server.session({ projectId: other.projectId, role: "OWNER" });
  const { body } = await server.call("POST", `/v1/projects/${other.projectId}/api-keys`, {
    key: stranger.token,
    body: { name: "theirs" },
  });
  const { status, body: refused } = await server.call("DELETE", `${path}/${body.id}`, { key: token });
  expect([status, refused.code]).toEqual([404, "SVC_API_KEY_NOT_FOUND"]);
  expect((await server.call("GET", "/v1/project", { key: String(body.key) })).status).toBe(200);
});

test("[1] a retried creation replays the same key for 5 minutes", async () => {
  const headers = { "idempotency-key": "retry" };
  const mint = () => server.call("POST", path, { key: token, body: { name: "retried" }, headers });
  const first = await mint();
  const again = await mint();
  expect([again.status, again.body, again.headers.get("idempotent-replayed")]).toEqual([201, first.body, "true"]);
  server.clock.advance(5 * 60_000);
  expect((await mint()).body.id).not.toBe(first.body.id);
  // Credentials are never stored, not even for a replay.
  const kept = server.runtime.db.$client.query("SELECT * FROM idempotency_keys").all();
  expect(JSON.stringify(kept)).not.toContain("svk_");
});

test("[14] the last use is written at most every 10 seconds", async () => {
  const { id, key } = (await create({ name: "used" })).body as { id: string; key: string };
  const used = async () => {
    await server.call("GET", "/v1/project", { key });
    await server.runtime.writer.drain();
    return (await list()).find((one) => one.id === id)?.lastUsedAt;
  };
  const first = await used();
  server.clock.advance(9_999);
  expect(await used()).toBe(first);
  server.clock.advance(1);
  expect(await used()).not.toBe(first);
});

test("[5] the list can be narrowed to one environment", async () => {
  expect(new Set((await list()).map(({ environment }) => environment)).size).toBe(2);
  expect(new Set((await list("?environment=PRODUCTION")).map(({ environment }) => environment))).toEqual(
    new Set(["PRODUCTION"]),
  );
});
