import { afterAll, expect, test } from "bun:test";
import { PROJECT_ROLES, type ProjectRole } from "../../../src/protocol/enums.ts";
import { testServer } from "../../harness/server.ts";

const server = testServer({ RATE_LIMIT_API_KEYS: 1000, RATE_LIMIT_TEST_TOKEN: 1000 });
afterAll(server.close);

const RANK: Record<ProjectRole, number> = { VIEWER: 0, DEVELOPER: 1, ADMIN: 2, OWNER: 3 };

/**
 * The matrix of contract §4 as a rule, so that new routes below a project are covered. All roles may read, except the
 * audit log and personal data. Developers may change what they work with, admins the rest, and owners archive.
 */
function leastRole(method: string, path: string): ProjectRole {
  const [resource = ""] = path.split("/").filter(Boolean);
  if (resource === "audit-logs" || resource === "people") return "ADMIN";
  // All roles may list recordings; only those who may record can download them.
  if (path.endsWith("/download-url")) return "DEVELOPER";
  // A delivery shows its body, and with it the text of messages.
  if (/^\/webhooks\/\w+\/deliveries\/\w+$/.test(path)) return "DEVELOPER";
  // Signing secrets and the text of reports are for the roles that work with them.
  if (path.endsWith("/signing-secret") || /^\/chat\/(reports|word-list)/.test(path)) return "DEVELOPER";
  if (method === "GET") return "VIEWER";
  if (["rooms", "live-streams", "api-keys", "webhooks", "recordings", "connections"].includes(resource))
    return "DEVELOPER";
  return method === "DELETE" && resource === "" ? "OWNER" : "ADMIN";
}

const PREFIX = "/v1/projects/:projectId";
const ROUTES = server.app.routes
  .filter(({ path }) => path.startsWith(PREFIX))
  .map(({ method, path }) => ({ method, path: path.slice(PREFIX.length).replace(/:\w+/g, "any") }));

test("[4] the table of roles in this test contains every route below a project", () => {
  const names = ROUTES.map(({ method, path }) => `${method} ${path}`);
  expect(names).toContain("DELETE ");
  expect(names).toContain("GET /audit-logs");
  expect(names).toContain("POST /rooms/any/test-token");
  expect(names.length).toBeGreaterThan(20);
});

for (const { method, path } of ROUTES) {
  for (const role of PROJECT_ROLES) {
    const may = RANK[role] >= RANK[leastRole(method, path)];
    test(`[4] ${role} ${may ? "may" : "may not"} ${method} …${path}`, async () => {
      const { token, projectId } = await server.session({ role });
      // Without a body, a permitted request fails in validation or succeeds, and any other is refused before that.
      const { status, body } = await server.call(method, `/v1/projects/${projectId}${path}`, { key: token });
      if (may) expect(body.code).not.toBe("SVC_PERMISSION_DENIED");
      else expect([status, body.code]).toEqual([403, "SVC_PERMISSION_DENIED"]);
      expect(status).not.toBe(401);
      expect(status).not.toBe(500);
      expect(body.code).not.toBe("SVC_PROJECT_NOT_FOUND");
    });
  }

  test(`[5] a stranger gets 404 for ${method} …${path}`, async () => {
    const { projectId } = await server.project();
    const { token } = await server.session({ role: "OWNER" });
    const { status, body } = await server.call(method, `/v1/projects/${projectId}${path}`, { key: token });
    expect([status, body.code]).toEqual([404, "SVC_PROJECT_NOT_FOUND"]);
  });
}

test("[4] the capabilities of a member are those of the role", async () => {
  const { token, projectId } = await server.session({ role: "DEVELOPER" });
  const { text } = await server.call("GET", `/v1/projects/${projectId}/members`, { key: token });
  const capabilities = Object.fromEntries(
    (JSON.parse(text) as { role: string; capabilities: string[] }[]).map((one) => [one.role, one.capabilities]),
  );
  expect(capabilities.OWNER).toContain("project:archive");
  expect(capabilities.DEVELOPER).toContain("rooms:manage");
  expect(capabilities.DEVELOPER).not.toContain("audit:read");
});
