import { afterAll, expect, test } from "bun:test";
import type { ProjectRole } from "../../../src/protocol/enums.ts";
import { testServer } from "../../harness/server.ts";

const server = testServer();
afterAll(server.close);

/** A project with one member of each role; `ada` owns it. */
async function team() {
  const ada = await server.session();
  const { body } = await server.call("POST", "/v1/projects", { key: ada.token, body: { name: "team" } });
  const projectId = String(body.id);
  const join = (role: ProjectRole) => server.session({ projectId, role });
  const path = `/v1/projects/${projectId}/members`;
  return { ada, admin: await join("ADMIN"), developer: await join("DEVELOPER"), viewer: await join("VIEWER"), path };
}

const roles = async (path: string, key: string) => {
  const { text } = await server.call("GET", path, { key });
  return Object.fromEntries((JSON.parse(text) as { userId: string; role: string }[]).map((m) => [m.userId, m.role]));
};

test("[5] a user with an account becomes a member at once; repeating has no effect; another role is a conflict", async () => {
  const { ada, path } = await team();
  const grace = await server.session();
  const add = (role: string) =>
    server.call("POST", path, { key: ada.token, body: { email: grace.email.toUpperCase(), role } });
  const added = await add("DEVELOPER");
  expect(added.status).toBe(201);
  expect(added.body).toEqual({
    userId: grace.userId,
    email: grace.email,
    name: null,
    role: "DEVELOPER",
    capabilities: expect.arrayContaining(["rooms:manage"]),
    addedAt: "2026-03-01T12:00:00.000Z",
  });
  const again = await add("DEVELOPER");
  expect([again.status, again.body]).toEqual([200, added.body]);
  const other = await add("ADMIN");
  expect([other.status, other.body.code]).toEqual([409, "SVC_CONFLICT"]);
  expect((await roles(path, ada.token))[grace.userId]).toBe("DEVELOPER");
});

test("[5] a role must be one of the four, and must be given", async () => {
  const { ada, viewer, path } = await team();
  const { email } = await server.session();
  for (const role of ["SUPERUSER", "owner", "", undefined]) {
    expect((await server.call("POST", path, { key: ada.token, body: { email, role } })).status).toBe(400);
    const changed = await server.call("PATCH", `${path}/${viewer.userId}`, { key: ada.token, body: { role } });
    expect(changed.status).toBe(400);
  }
  expect((await roles(path, ada.token))[viewer.userId]).toBe("VIEWER");
});

test("[4] only an owner can add, change or remove an owner", async () => {
  const { ada, admin, developer, path } = await team();
  const other = await server.session();
  const denied = async (method: string, sub: string, body?: unknown) => {
    const reply = await server.call(method, path + sub, { key: admin.token, body });
    expect([reply.status, reply.body.code]).toEqual([403, "SVC_PERMISSION_DENIED"]);
  };
  await denied("POST", "", { email: other.email, role: "OWNER" });
  await denied("POST", "", { email: "unknown@example.com", role: "OWNER" });
  await denied("PATCH", `/${developer.userId}`, { role: "OWNER" });
  await denied("PATCH", `/${ada.userId}`, { role: "VIEWER" });
  await denied("DELETE", `/${ada.userId}`);
  expect(await roles(path, ada.token)).toMatchObject({ [ada.userId]: "OWNER", [developer.userId]: "DEVELOPER" });

  const promoted = await server.call("PATCH", `${path}/${developer.userId}`, {
    key: ada.token,
    body: { role: "OWNER" },
  });
  expect([promoted.status, promoted.body.role]).toEqual([200, "OWNER"]);
});

test("[5] the last owner can neither change role nor leave", async () => {
  const { ada, admin, path } = await team();
  const own = `${path}/${ada.userId}`;
  for (const [method, body] of [
    ["PATCH", { role: "ADMIN" }],
    ["DELETE", undefined],
  ] as const) {
    const { status, body: answer } = await server.call(method, own, { key: ada.token, body });
    expect([status, answer.code]).toEqual([409, "SVC_LAST_OWNER"]);
  }
  await server.call("PATCH", `${path}/${admin.userId}`, { key: ada.token, body: { role: "OWNER" } });
  expect((await server.call("DELETE", own, { key: ada.token })).status).toBe(204);
  expect((await server.call("GET", path, { key: ada.token })).body.code).toBe("SVC_PROJECT_NOT_FOUND");
});

test("[5] members below ADMIN can remove only themselves", async () => {
  const { ada, developer, viewer, path } = await team();
  const denied = await server.call("DELETE", `${path}/${viewer.userId}`, { key: developer.token });
  expect([denied.status, denied.body.code]).toEqual([403, "SVC_PERMISSION_DENIED"]);
  expect((await server.call("DELETE", `${path}/${viewer.userId}`, { key: viewer.token })).status).toBe(204);
  expect(await roles(path, ada.token)).not.toHaveProperty(viewer.userId);
});

test("[5] a user who is not a member cannot be changed or removed", async () => {
  const { ada, path } = await team();
  const stranger = await server.session();
  for (const [method, body] of [
    ["PATCH", { role: "ADMIN" }],
    ["DELETE", undefined],
  ] as const) {
    const reply = await server.call(method, `${path}/${stranger.userId}`, { key: ada.token, body });
    expect([reply.status, reply.body.code]).toEqual([404, "SVC_MEMBER_NOT_FOUND"]);
  }
});

test("[1] members are listed newest first, page by page", async () => {
  const { ada, path } = await team();
  const seen: string[] = [];
  for (let next: string | undefined = `${path}?limit=3`; next !== undefined; ) {
    const { text, headers } = await server.call("GET", next, { key: ada.token });
    seen.push(...(JSON.parse(text) as { role: string }[]).map(({ role }) => role));
    next = /<([^>]+)>/.exec(headers.get("link") ?? "")?.[1];
  }
  expect(seen).toEqual(["VIEWER", "DEVELOPER", "ADMIN", "OWNER"]);
});
