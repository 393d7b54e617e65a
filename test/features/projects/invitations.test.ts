import { afterAll, expect, test } from "bun:test";
import type { Config } from "../../../src/kernel/config/index.ts";
import { type TestServer, testServer } from "../../harness/server.ts";

const servers: TestServer[] = [];
afterAll(() => Promise.all(servers.map((server) => server.close())));

const PASSWORD = "correct horse battery";
const DAY_MS = 86_400_000;

/** Without a mail server the links are in the log. */
async function invited(overrides: Partial<Config> = {}, role = "DEVELOPER") {
  const server = testServer({ RATE_LIMIT_AUTH_REGISTER: 1000, ...overrides });
  servers.push(server);
  const { token: owner, projectId } = await server.session({ role: "OWNER" });
  const path = `/v1/projects/${projectId}`;
  const invite = async (email: string) => {
    const reply = await server.call("POST", `${path}/members`, { key: owner, body: { email, role } });
    await server.services.mailer.drain();
    const line = server.logLines.findLast((text) => text.includes("mail: not sent")) ?? "{}";
    const { link = "", to } = JSON.parse(line) as { link?: string; to?: string };
    return { ...reply, to, link, token: /#token=([\w-]{43})$/.exec(link)?.[1] ?? "" };
  };
  const register = (email: string, inviteToken?: string) =>
    server.call("POST", "/v1/auth/register", { body: { email, password: PASSWORD, inviteToken } });
  const accept = (key: string, token: string) => server.call("POST", `/v1/invitations/${token}/accept`, { key });
  const pending = async (key = owner) =>
    JSON.parse((await server.call("GET", `${path}/invitations`, { key })).text) as {
      email: string;
      id: string;
    }[];
  return { server, owner, projectId, path, invite, register, accept, pending };
}

test("[14] an unknown address gets an invitation, which lets it register while registration is closed to others", async () => {
  const { server, projectId, path, invite, register, pending } = await invited({ REGISTRATION: "first-user" });
  const { status, body, to, link, token } = await invite("New@Example.com");
  expect(status).toBe(202);
  expect(body).toMatchObject({ projectId, email: "new@example.com", role: "DEVELOPER" });
  expect(JSON.stringify(body)).not.toContain(token);
  expect([to, link]).toEqual(["new@example.com", expect.stringContaining("/invitation#token=")]);
  expect((await pending()).map(({ email }) => email)).toEqual(["new@example.com"]);

  expect((await register("other@example.com")).body.code).toBe("SVC_REGISTRATION_CLOSED");
  const registered = await register("new@example.com", token);
  expect(registered.status).toBe(201);
  expect(registered.body).toMatchObject({ user: { emailVerified: true, isOperator: false } });
  const project = await server.call("GET", path, { key: String(registered.body.accessToken) });
  expect(project.body).toMatchObject({ id: projectId, role: "DEVELOPER" });
  expect(await pending()).toEqual([]);

  const again = await register("third@example.com", token);
  expect([again.status, again.body.code]).toEqual([400, "SVC_INVALID_ONE_TIME_TOKEN"]);
});

test("[14] no invitation opens a server whose registration is closed", async () => {
  const { invite, register } = await invited({ REGISTRATION: "closed" });
  const { token } = await invite("new@example.com");
  const { status, body } = await register("new@example.com", token);
  expect([status, body.code]).toEqual([403, "SVC_REGISTRATION_CLOSED"]);
});

test("[14] an invalid invitation makes no account, even where anyone may register", async () => {
  const { register } = await invited({ REGISTRATION: "open" });
  expect((await register("new@example.com", "x".repeat(43))).body.code).toBe("SVC_INVALID_ONE_TIME_TOKEN");
  expect((await register("new@example.com")).status).toBe(201);
});

test("[14] an address other than the invited one is admitted, but not verified", async () => {
  const { invite, register } = await invited();
  const { token } = await invite("work@example.com");
  const { status, body } = await register("private@example.com", token);
  expect(status).toBe(201);
  expect(body).toMatchObject({ user: { email: "private@example.com", emailVerified: false } });
});

test("[14] a signed-in user reads the invitation and accepts it once", async () => {
  const { server, projectId, owner, path, invite, accept } = await invited();
  const { token } = await invite("grace@example.com");
  const preview = await server.call("GET", `/v1/invitations/${token}`);
  expect(preview.body).toEqual({
    projectName: "test",
    email: "grace@example.com",
    role: "DEVELOPER",
    invitedBy: expect.stringContaining("@example.com"),
    expiresAt: "2026-03-08T12:00:00.000Z",
  });

  const grace = await server.session();
  const { status, body } = await accept(grace.token, token);
  expect([status, body.id, body.role]).toEqual([200, projectId, "DEVELOPER"]);
  expect((await accept(grace.token, token)).body.code).toBe("SVC_INVALID_ONE_TIME_TOKEN");
  expect((await server.call("GET", `/v1/invitations/${token}`)).status).toBe(400);

  const logs = await server.call("GET", `${path}/audit-logs?action=member.added`, { key: owner });
  expect(JSON.parse(logs.text)).toMatchObject([{ actorId: grace.userId, resourceId: grace.userId }]);
});

test("[14] accepting an invitation does not change the role of a member", async () => {
  const { server, projectId, invite, accept } = await invited({}, "VIEWER");
  const { token } = await invite("second-address@example.com");
  const admin = await server.session({ projectId, role: "ADMIN" });
  expect((await accept(admin.token, token)).body.role).toBe("ADMIN");
  expect(server.services.members.roleIn(projectId, admin.userId)).toBe("ADMIN");
});

test("[14] an invitation lasts seven days, and a second one replaces the first", async () => {
  const { server, projectId, invite, accept, pending } = await invited();
  const first = await invite("slow@example.com");
  const second = await invite("slow@example.com");
  expect((await pending()).length).toBe(1);
  const grace = await server.session();
  expect((await accept(grace.token, first.token)).body.code).toBe("SVC_INVALID_ONE_TIME_TOKEN");

  server.clock.advance(7 * DAY_MS - 1);
  expect((await server.call("GET", `/v1/invitations/${second.token}`)).status).toBe(200);
  server.clock.advance(1);
  expect((await server.call("GET", `/v1/invitations/${second.token}`)).status).toBe(400);
  const viewer = await server.session({ projectId, role: "VIEWER" });
  expect(await pending(viewer.token)).toEqual([]);
});

test("[14] a withdrawn invitation, or one to an archived project, is invalid", async () => {
  const { server, owner, path, invite, accept, pending } = await invited();
  const withdrawn = await invite("a@example.com");
  const [{ id } = { id: "" }] = await pending();
  expect((await server.call("DELETE", `${path}/invitations/${id}`, { key: owner })).status).toBe(204);
  expect((await server.call("DELETE", `${path}/invitations/${id}`, { key: owner })).body.code).toBe(
    "SVC_INVITATION_NOT_FOUND",
  );
  const stranger = await server.session();
  expect((await accept(stranger.token, withdrawn.token)).status).toBe(400);

  const late = await invite("b@example.com");
  await server.call("DELETE", path, { key: owner });
  expect((await accept(stranger.token, late.token)).body.code).toBe("SVC_INVALID_ONE_TIME_TOKEN");
});

test("[14] the token of an invitation is in no line of the log but the one that hands it over", async () => {
  const { server, invite, accept } = await invited();
  const { token } = await invite("quiet@example.com");
  await server.call("GET", `/v1/invitations/${token}`);
  await accept((await server.session()).token, token);
  const lines = server.logLines.filter((line) => line.includes(token));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain("mail: not sent");
});
