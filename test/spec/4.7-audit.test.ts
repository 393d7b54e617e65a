import { afterAll, expect, test } from "bun:test";
import type { AuditEvent } from "../../src/features/audit/events.ts";
import { AUDIT_ACTIONS } from "../../src/protocol/enums.ts";
import { testServer } from "../harness/server.ts";

type Entry = Record<string, unknown> & { publicId: string; action: string; metadata: Record<string, unknown> };

const server = testServer();
afterAll(server.close);

/** A new project with the token of its owner. */
async function ownProject() {
  const { token, userId, email } = await server.session();
  const { body, headers } = await server.call("POST", "/v1/projects", { key: token, body: { name: "audited" } });
  const projectId = String(body.id);
  const path = `/v1/projects/${projectId}`;
  const logs = async (query = "", key = token) => {
    const { text } = await server.call("GET", `${path}/audit-logs${query}`, { key });
    return JSON.parse(text) as Entry[];
  };
  const act = (method: string, sub: string, body?: unknown, headers: Record<string, string> = {}) =>
    server.call(method, path + sub, { key: token, body, headers });
  return { token, userId, email, projectId, path, logs, act, createdBy: headers.get("x-request-id") };
}

test("[4.7] an entry has the actor, the action, the resource, the request and the address", async () => {
  const { userId, email, projectId, logs, act } = await ownProject();
  const { headers } = await act(
    "POST",
    "/api-keys",
    { name: "backend", environment: "PRODUCTION" },
    {
      "user-agent": "audit-test/1.0",
      "x-request-id": "chosen-by-the-caller",
    },
  );
  const [entry] = await logs();
  expect(entry).toEqual({
    publicId: expect.stringMatching(/^aud_[A-Za-z0-9]{24}$/),
    projectId,
    environment: "PRODUCTION",
    actorType: "user",
    actorId: userId,
    actorEmail: email,
    actorName: null,
    action: "api_key.created",
    resourceType: "api_key",
    resourceId: expect.any(String),
    metadata: { publicId: expect.stringMatching(/^[A-Za-z0-9]{16}$/) },
    requestId: String(headers.get("x-request-id")),
    ipAddress: "127.0.0.1",
    userAgent: "audit-test/1.0",
    createdAt: "2026-03-01T12:00:00.000Z",
  });
  expect(entry?.requestId).toBe("chosen-by-the-caller");
});

test("[4.7] changes of projects, keys and members are recorded, newest first, with the names of changed fields only", async () => {
  const { projectId, logs, act, createdBy } = await ownProject();
  const grace = await server.session();
  const key = (await act("POST", "/api-keys", { name: "k" })).body;
  await act("PATCH", "", { name: "NEW-VALUE", description: "NEW-VALUE" });
  await act("PATCH", "/allowed-origins", {
    allowedOrigins: ["https://new-value.example"],
    allowLocalhostOrigins: false,
  });
  await act("POST", "/members", { email: grace.email, role: "VIEWER" });
  await act("PATCH", `/members/${grace.userId}`, { role: "ADMIN" });
  await act("DELETE", `/members/${grace.userId}`);
  await act("DELETE", `/api-keys/${key.id}`);
  await act("DELETE", "");

  const entries = await logs();
  expect(
    entries.map(({ action, resourceType, resourceId, metadata }) => [action, resourceType, resourceId, metadata]),
  ).toEqual([
    ["project.archived", "project", projectId, {}],
    ["api_key.revoked", "api_key", key.id, { publicId: key.publicId }],
    ["member.removed", "member", grace.userId, {}],
    ["member.role_changed", "member", grace.userId, { fields: ["role"] }],
    ["member.added", "member", grace.userId, { role: "VIEWER" }],
    ["project.updated", "project", projectId, { fields: ["allowedOrigins", "allowLocalhostOrigins"] }],
    ["project.updated", "project", projectId, { fields: ["name", "description"] }],
    ["api_key.created", "api_key", key.id, { publicId: key.publicId }],
    ["project.created", "project", projectId, {}],
  ]);
  expect(entries.at(-1)?.requestId).toBe(String(createdBy));
  const text = JSON.stringify(entries);
  for (const never of ["NEW-VALUE", "new-value", String(key.key), String(key.key).split(".")[1] ?? "", "ADMIN"]) {
    expect(text).not.toContain(never);
  }
});

test("[4.7] a request that changes nothing or is refused leaves no entry", async () => {
  const { logs, act } = await ownProject();
  await act("PATCH", "", { name: "audited" });
  await act("PATCH", "", {});
  await act("PATCH", "", { name: "" });
  await act("DELETE", "/api-keys/unknown");
  expect((await logs()).map(({ action }) => action)).toEqual(["project.created"]);
});

test("[4.7] filters by action, actor and resource narrow the list, together too", async () => {
  const { projectId, userId, logs, act } = await ownProject();
  const admin = await server.session({ projectId, role: "ADMIN" });
  const { body: key } = await act("POST", "/api-keys", { name: "a" });
  await server.call("POST", `/v1/projects/${projectId}/api-keys`, { key: admin.token, body: { name: "b" } });

  expect(await logs("?action=api_key.created")).toHaveLength(2);
  expect(await logs(`?actorId=${admin.userId}`)).toHaveLength(1);
  expect(await logs(`?resourceId=${key.id}`)).toHaveLength(1);
  expect(await logs(`?action=api_key.created&actorId=${userId}&resourceId=${key.id}`)).toHaveLength(1);
  expect(await logs(`?action=project.created&actorId=${admin.userId}`)).toEqual([]);
  expect(await logs("?actorId=nobody")).toEqual([]);
  for (const action of AUDIT_ACTIONS) expect(Array.isArray(await logs(`?action=${action}`))).toBe(true);
});

test("[4.7] an unknown action gives 400", async () => {
  const { act } = await ownProject();
  const ofSpec = /^(project|api_key|member|webhook)[.](?!secret_shown)/;
  expect(AUDIT_ACTIONS.filter((action) => ofSpec.test(action))).toHaveLength(11);
  for (const action of ["project.deleted", "PROJECT.CREATED", ""]) {
    const { status, body } = await act("GET", `/audit-logs?action=${action}`);
    expect([action, status, body.code]).toEqual([action, 400, "SVC_VALIDATION_FAILED"]);
  }
});

test("[4.7] 50 entries by default, 200 at most, and a cursor to the rest", async () => {
  const { projectId, logs, act } = await ownProject();
  const { bus, write, now } = server.runtime;
  const fact = (resourceId: string): AuditEvent => ({
    action: "webhook.updated",
    projectId,
    environment: "DEVELOPMENT",
    actor: null,
    request: null,
    resourceId,
    metadata: {},
    at: now(),
  });
  await write((unit) => {
    for (let n = 1; n <= 210; n++) bus.publish(unit, "audit", fact(String(n)));
  });
  expect(await logs()).toHaveLength(50);
  for (const [limit, status] of [
    [0, 400],
    [1, 200],
    [200, 200],
    [201, 400],
  ]) {
    expect((await act("GET", `/audit-logs?limit=${limit}`)).status).toBe(status as number);
  }
  const seen: unknown[] = [];
  let next: string | undefined = "/audit-logs?limit=100&action=webhook.updated";
  while (next !== undefined) {
    const { text, headers } = await act("GET", next);
    seen.push(...(JSON.parse(text) as Entry[]).map(({ resourceId }) => resourceId));
    next = /<[^>]*(\/audit-logs\?[^>]+)>/.exec(headers.get("link") ?? "")?.[1];
  }
  expect(seen).toEqual(Array.from({ length: 210 }, (_, n) => String(210 - n)));
  expect((await act("GET", "/audit-logs?cursor=nonsense")).body.code).toBe("SVC_INVALID_CURSOR");
});

test("[4.7] the entry keeps the actor's email address when the user changes it or is deleted", async () => {
  const { userId, email, logs } = await ownProject();
  await server.runtime.write(
    (unit) => void server.services.users.update(unit, userId, { email: `gone-${userId}@example.com` }),
  );
  expect((await logs())[0]?.actorEmail).toBe(email);
});

test("[4.7] entries cannot be changed or deleted", async () => {
  const { projectId, logs } = await ownProject();
  const before = await logs();
  const { $client } = server.runtime.db;
  for (const statement of [
    "UPDATE audit_entries SET actor_email = 'somebody@else' WHERE project_id = ?",
    "DELETE FROM audit_entries WHERE project_id = ?",
  ]) {
    expect(() => $client.run(statement, [projectId])).toThrow("audit entries are permanent");
  }
  expect(await logs()).toEqual(before);
  const writers = server.app.routes.filter(({ path, method }) => path.includes("audit") && method !== "GET");
  expect(writers).toEqual([]);
});

test("[7] an entry that cannot be written does not fail the request, and is logged", async () => {
  const { act, logs } = await ownProject();
  const { $client } = server.runtime.db;
  $client.run("CREATE TRIGGER disk_trouble BEFORE INSERT ON audit_entries BEGIN SELECT RAISE(ABORT, 'trouble'); END");
  const { status, headers, body } = await act("PATCH", "", { name: "still done" });
  $client.run("DROP TRIGGER disk_trouble");

  expect([status, body.name]).toEqual([200, "still done"]);
  expect((await act("GET", "")).body.name).toBe("still done");
  expect((await logs()).map(({ action }) => action)).toEqual(["project.created"]);
  const line = server.logLines.find((text) => text.includes("audit: entry not saved")) ?? "{}";
  expect(JSON.parse(line)).toMatchObject({ action: "project.updated", requestId: headers.get("x-request-id") });
});

test("[4.7] an action that fails is rolled back together with its entry", async () => {
  const { projectId, logs } = await ownProject();
  const { services, runtime } = server;
  const failing = runtime.write((unit) => {
    services.apiKeys.create(unit, projectId, { name: "undone", environment: "DEVELOPMENT" });
    throw new Error("later in the same unit");
  });
  await expect(failing).rejects.toThrow("later in the same unit");
  expect((await logs()).map(({ action }) => action)).toEqual(["project.created"]);
});
