import { afterAll, expect, test } from "bun:test";
import { PROJECT_ROLES, type ProjectRole } from "../../src/protocol/enums.ts";
import { testServer } from "../harness/server.ts";

const server = testServer({ RATE_LIMIT_API_KEYS: 1000, RATE_LIMIT_TEST_TOKEN: 1000 });
afterAll(server.close);

const ALL = PROJECT_ROLES;
const FROM_DEVELOPER: readonly ProjectRole[] = ["OWNER", "ADMIN", "DEVELOPER"];
const FROM_ADMIN: readonly ProjectRole[] = ["OWNER", "ADMIN"];
const OWNER: readonly ProjectRole[] = ["OWNER"];

/** The matrix of contract §4: method, path below the project, who may. A feature adds its own rows. */
const MATRIX: [string, string, readonly ProjectRole[]][] = [
  ["GET", "", ALL],
  ["GET", "/members", ALL],
  ["GET", "/invitations", ALL],
  ["GET", "/api-keys", ALL],
  ["GET", "/rooms", ALL],
  ["POST", "/rooms", FROM_DEVELOPER],
  ["POST", "/rooms/any/test-token", FROM_DEVELOPER],
  ["POST", "/api-keys", FROM_DEVELOPER],
  ["DELETE", "/api-keys/any", FROM_DEVELOPER],
  ["PATCH", "", FROM_ADMIN],
  ["PATCH", "/allowed-origins", FROM_ADMIN],
  ["POST", "/members", FROM_ADMIN],
  ["PATCH", "/members/any", FROM_ADMIN],
  ["DELETE", "/invitations/any", FROM_ADMIN],
  ["GET", "/audit-logs", FROM_ADMIN],
  ["DELETE", "", OWNER],
];

for (const [method, path, allowed] of MATRIX) {
  for (const role of PROJECT_ROLES) {
    const may = allowed.includes(role);
    test(`[4] ${role} ${may ? "may" : "may not"} ${method} …${path}`, async () => {
      const { token, projectId } = await server.session({ role });
      // Without a body: what is permitted gets as far as validation or the record itself, what is not stops before.
      const { status, body } = await server.call(method, `/v1/projects/${projectId}${path}`, { key: token });
      if (may) expect(body.code).not.toBe("SVC_PERMISSION_DENIED");
      else expect([status, body.code]).toEqual([403, "SVC_PERMISSION_DENIED"]);
      expect(status).not.toBe(401);
      expect(body.code).not.toBe("SVC_PROJECT_NOT_FOUND");
    });
  }

  test(`[5] to a stranger there is no ${method} …${path}`, async () => {
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
