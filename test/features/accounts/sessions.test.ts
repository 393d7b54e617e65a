import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";

const server = testServer({
  REGISTRATION: "open",
  RATE_LIMIT_AUTH_LOGIN: 1000,
  RATE_LIMIT_AUTH_REGISTER: 1000,
  RATE_LIMIT_AUTH_PASSWORD_RESET_CONFIRM: 4,
});
afterAll(server.close);

const PASSWORD = "correct horse battery";

/** A user with two sessions, the second from a phone. */
async function twice(email: string) {
  const credentials = { email, password: PASSWORD };
  const first = await server.call("POST", "/v1/auth/register", { body: credentials });
  const headers = { "user-agent": "Phone/1.0" };
  const second = await server.call("POST", "/v1/auth/login", { body: credentials, headers });
  return { first: String(first.body.accessToken), second: String(second.body.accessToken) };
}

const list = async (key: string) =>
  JSON.parse((await server.call("GET", "/v1/auth/sessions", { key })).text) as Record<string, unknown>[];
const meStatus = async (key: string) => (await server.call("GET", "/v1/auth/me", { key })).status;

test("[5] a user lists the sessions of the account, newest first, with the current one marked", async () => {
  const { first } = await twice("list@example.com");
  expect(await list(first)).toEqual([
    expect.objectContaining({ userAgent: "Phone/1.0", current: false, ipAddress: "127.0.0.1" }),
    expect.objectContaining({ userAgent: null, current: true, expiresAt: "2026-03-31T12:00:00.000Z" }),
  ]);
});

test("[5] a session can be ended from another of the same user, but not by a stranger", async () => {
  const { first, second } = await twice("end@example.com");
  const [phone] = await list(first);
  const { first: stranger } = await twice("stranger@example.com");
  const refused = await server.call("DELETE", `/v1/auth/sessions/${phone?.id}`, { key: stranger });
  expect([refused.status, refused.body.code]).toEqual([404, "SVC_SESSION_NOT_FOUND"]);
  expect(await meStatus(second)).toBe(200);

  expect((await server.call("DELETE", `/v1/auth/sessions/${phone?.id}`, { key: first })).status).toBe(204);
  expect([await meStatus(first), await meStatus(second)]).toEqual([200, 401]);
  expect(await list(first)).toHaveLength(1);
});

test("[5] changing the password takes the current one, replaces the session and ends every other", async () => {
  const { first, second } = await twice("change@example.com");
  const change = (currentPassword: string, newPassword: string) =>
    server.call("POST", "/v1/auth/password", { key: first, body: { currentPassword, newPassword } });
  const wrong = await change("wrong password", "a new password");
  expect([wrong.status, wrong.body.code]).toEqual([400, "SVC_VALIDATION_FAILED"]);
  expect((await change(PASSWORD, "x".repeat(9))).status).toBe(400);
  const changed = await change(PASSWORD, "a new password");
  const renewed = String(changed.body.accessToken);
  // A token that was stolen before ends too, and so does the cookie.
  expect([await meStatus(renewed), await meStatus(first), await meStatus(second)]).toEqual([200, 401, 401]);
  expect(changed.headers.get("set-cookie")).toContain("stoa_refresh=");
  expect(await list(renewed)).toEqual([expect.objectContaining({ current: true })]);
  const login = async (password: string) =>
    (await server.call("POST", "/v1/auth/login", { body: { email: "change@example.com", password } })).status;
  expect([await login(PASSWORD), await login("a new password")]).toEqual([401, 200]);
});

test("[8] guesses at the current password are rate limited", async () => {
  const { first } = await twice("guess@example.com");
  const guess = () =>
    server.call("POST", "/v1/auth/password", { key: first, body: { currentPassword: "guess", newPassword: PASSWORD } });
  for (let n = 0; n < 4; n++) expect((await guess()).status).toBe(400);
  expect((await guess()).status).toBe(429);
});

test("[5] an account without a password cannot be given one by a session alone", async () => {
  const { token } = await server.session();
  const body = { currentPassword: "", newPassword: "a new password" };
  expect((await server.call("POST", "/v1/auth/password", { key: token, body })).status).toBe(400);
});

test("[5] expired sessions are deleted at the next sign-in", async () => {
  const { first } = await twice("old@example.com");
  const count = () => server.runtime.db.$client.query<{ n: number }, []>("SELECT count(*) AS n FROM sessions").get()?.n;
  expect(await list(first)).toHaveLength(2);
  server.clock.advance(31 * 86_400_000);
  await server.call("POST", "/v1/auth/login", { body: { email: "old@example.com", password: PASSWORD } });
  expect(count()).toBe(1);
  const tokens = server.runtime.db.$client.query<{ n: number }, []>("SELECT count(*) AS n FROM refresh_tokens").get();
  expect(tokens?.n).toBe(1);
});

test("[2] a server that cannot write keeps the refresh cookie, which renews once it can", async () => {
  const { headers } = await server.call("POST", "/v1/auth/register", {
    body: { email: "full-disk@example.com", password: PASSWORD },
  });
  const cookie = (headers.get("set-cookie") ?? "").split(";")[0] ?? "";
  const refresh = () => server.call("POST", "/v1/auth/refresh", { headers: { cookie } });
  server.runtime.db.$client.run("PRAGMA query_only = ON");
  const failed = await refresh();
  server.runtime.db.$client.run("PRAGMA query_only = OFF");
  expect([failed.status, failed.headers.get("set-cookie")]).toEqual([500, null]);

  expect((await refresh()).status).toBe(200);
  server.clock.advance(20_000);
  const reused = await refresh();
  expect([reused.status, reused.headers.get("set-cookie")]).toEqual([401, expect.stringContaining("Max-Age=0")]);
});
