import { afterAll, describe, expect, test } from "bun:test";
import { acceptedStep, base32, totpCode, totpStep } from "../../../src/features/accounts/second-factor/totp.ts";
import { createAuthenticator, secretOf } from "../../harness/authenticator.ts";
import { type TestServer, testServer } from "../../harness/server.ts";

const OPEN = { REGISTRATION: "open" as const, RATE_LIMIT_AUTH_LOGIN: 1000, RATE_LIMIT_AUTH_REGISTER: 1000 };
const LIMITS = { ...OPEN, RATE_LIMIT_AUTH_PASSWORD_RESET_CONFIRM: 1000 };
const server = testServer(LIMITS);
afterAll(server.close);

const password = "correct horse battery";
let accounts = 0;

/** A new account, signed in. */
async function account(at: TestServer = server) {
  const email = `person-${++accounts}@example.com`;
  const { body } = await at.call("POST", "/v1/auth/register", { body: { email, password } });
  return { email, key: String(body.accessToken) };
}
const login = async (email: string) => {
  const answer = await server.call("POST", "/v1/auth/login", { body: { email, password } });
  const { body } = answer;
  return { key: String(body.accessToken), secondFactor: body.secondFactor, cookie: cookieOf(answer) };
};
const cookieOf = ({ headers }: { headers: Headers }) => headers.get("set-cookie")?.split(";")[0] ?? "";
const outcome = ({ status, body }: { status: number; body: Record<string, unknown> }) =>
  `${status} ${body.code ?? ""}`.trim();
/** An account with one-time codes, and what makes them. */
async function withCodes(at: TestServer = server) {
  const { email, key: before } = await account(at);
  const { body } = await at.call("POST", "/v1/auth/factors/totp", { key: before, body: { password } });
  const secret = secretOf(String(body.secret));
  const code = (steps = 0) => totpCode(secret, totpStep(at.clock.now()) + steps);
  const confirmed = await at.call("POST", "/v1/auth/factors/totp/confirm", { key: before, body: { code: code() } });
  return {
    email,
    key: sessionOf(confirmed),
    before,
    code,
    recoveryCodes: confirmed.body.recoveryCodes as string[],
    uri: String(body.uri),
  };
}
function sessionOf({ body }: { body: Record<string, unknown> }): string {
  const { accessToken, secondFactor } = body.session as Record<string, unknown>;
  expect(secondFactor).toBeNull();
  return String(accessToken);
}
const confirm = (key: string, code: string) =>
  server.call("POST", "/v1/auth/second-factor/code", { key, body: { code } });

test("[RFC 6238, appendix B] the codes are those of the RFC, cut to six digits", () => {
  const secret = new TextEncoder().encode("12345678901234567890");
  const expected: [number, string][] = [
    [59, "287082"],
    [1111111109, "081804"],
    [1234567890, "005924"],
    [20000000000, "353130"],
  ];
  for (const [seconds, code] of expected) expect(totpCode(secret, totpStep(seconds * 1000))).toBe(code);
  expect(base32(secret)).toBe("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
  expect(base32(new TextEncoder().encode("foob"))).toBe("MZXW6YQ");
  expect(acceptedStep(secret, "287082", 89_000, 0)).toBe(1);
  expect(acceptedStep(secret, "287082", 89_000, 1)).toBeNull();
  expect(acceptedStep(secret, "287082", 120_000, 0)).toBeNull();
});

describe("an account with one-time codes", () => {
  test("signs in with the password and a code, and can do nothing before the code", async () => {
    const { email, key, before, code, uri } = await withCodes();
    expect(uri).toStartWith(`otpauth://totp/Stoa%3A${encodeURIComponent(email)}?secret=`);
    // A new session takes the place of the one in which they were set up.
    expect((await server.call("GET", "/v1/projects", { key })).status).toBe(200);
    expect(outcome(await server.call("GET", "/v1/projects", { key: before }))).toBe("401 SVC_TOKEN_REVOKED");
    server.clock.advance(60_000);
    const half = await login(email);
    expect(half.secondFactor).toBe("verify");
    for (const [method, path] of [
      ["GET", "/v1/projects"],
      ["POST", "/v1/projects"],
      ["GET", "/v1/auth/sessions"],
      ["GET", "/v1/auth/factors"],
      ["POST", "/v1/auth/factors/totp/remove"],
      ["POST", "/v1/auth/password"],
    ] as const) {
      const body =
        method === "POST"
          ? { name: "x", password, currentPassword: password, newPassword: "another long one" }
          : undefined;
      expect([path, outcome(await server.call(method, path, { key: half.key, body }))]).toEqual([
        path,
        "403 SVC_SECOND_FACTOR_REQUIRED",
      ]);
    }
    expect(outcome(await confirm(half.key, "000000"))).toBe("400 SVC_SECOND_FACTOR_INVALID");
    const whole = await confirm(half.key, code());
    expect(whole.body).toMatchObject({ secondFactor: null, user: { email } });
    expect((await server.call("GET", "/v1/projects", { key: String(whole.body.accessToken) })).status).toBe(200);
    // A token of the session from before the second factor gives no access afterwards either.
    expect(outcome(await server.call("GET", "/v1/projects", { key: half.key }))).toBe("401 SVC_TOKEN_REVOKED");
    const refresh = (cookie: string) => server.call("POST", "/v1/auth/refresh", { headers: { cookie } });
    expect((await refresh(half.cookie)).status).toBe(401);
    expect((await refresh(cookieOf(whole))).body.secondFactor).toBeNull();
    // A code that a bystander read is of no use.
    const other = await login(email);
    expect(outcome(await confirm(other.key, code()))).toBe("400 SVC_SECOND_FACTOR_INVALID");
  });

  test("signs in with each recovery code once, in any spelling", async () => {
    const { email, recoveryCodes } = await withCodes();
    expect(recoveryCodes).toHaveLength(10);
    const [code = ""] = recoveryCodes;
    const confirmed = await confirm((await login(email)).key, code.toUpperCase().replace("-", " "));
    expect(confirmed.status).toBe(200);
    const first = { key: String(confirmed.body.accessToken) };
    expect((await server.call("GET", "/v1/auth/factors", { key: first.key })).body).toMatchObject({
      recoveryCodesLeft: 9,
    });
    const second = await login(email);
    expect(outcome(await confirm(second.key, code))).toBe("400 SVC_SECOND_FACTOR_INVALID");
    // Recovery codes of another account are not accepted.
    const stranger = await withCodes();
    expect(outcome(await confirm(second.key, stranger.recoveryCodes[0] ?? ""))).toBe("400 SVC_SECOND_FACTOR_INVALID");
    const replaced = await server.call("POST", "/v1/auth/factors/recovery-codes", {
      key: first.key,
      body: { password },
    });
    expect(replaced.body.recoveryCodes).toHaveLength(10);
    expect(outcome(await confirm(second.key, recoveryCodes[1] ?? ""))).toBe("400 SVC_SECOND_FACTOR_INVALID");
  });

  test("accepts ten attempts an hour at its code, over all sessions and addresses", async () => {
    const { email } = await withCodes();
    const { key } = await login(email);
    const outcomes: string[] = [];
    for (let n = 0; n < 12; n++) outcomes.push(outcome(await confirm(key, String(n).padStart(6, "0"))));
    expect(outcomes.slice(0, 10).every((one) => one === "400 SVC_SECOND_FACTOR_INVALID")).toBe(true);
    expect(outcomes.slice(10)).toEqual(["429 SVC_RATE_LIMITED", "429 SVC_RATE_LIMITED"]);
  });

  test("requires the password to change its factors, and its code after a password reset by mail", async () => {
    const { email, key } = await withCodes();
    const remove = (body: object) => server.call("POST", "/v1/auth/factors/totp/remove", { key, body });
    expect(outcome(await remove({}))).toBe("400 SVC_VALIDATION_FAILED");
    expect(outcome(await remove({ password: "a wrong password" }))).toBe("400 SVC_VALIDATION_FAILED");
    await server.call("POST", "/v1/auth/password-reset", { body: { email } });
    await server.services.mailer.drain();
    const token = /#token=([\w-]{43})/.exec(server.logLines.findLast((line) => line.includes("#token=")) ?? "")?.[1];
    const reset = await server.call("POST", "/v1/auth/password-reset/confirm", { body: { token, password } });
    expect(reset.body.secondFactor).toBe("verify");
    expect((await server.call("GET", "/v1/projects", { key: String(reset.body.accessToken) })).status).toBe(403);
  });

  test("has no second factor after the operator has reset its password on the command line", async () => {
    const { email } = await withCodes();
    await server.services.recovery.setPassword(email, password);
    expect((await login(email)).secondFactor).toBeNull();
  });
});

test("one-time codes that were never confirmed are not asked for at sign-in", async () => {
  const { email, key } = await account();
  await server.call("POST", "/v1/auth/factors/totp", { key, body: { password } });
  expect((await login(email)).secondFactor).toBeNull();
  expect((await server.call("GET", "/v1/auth/factors", { key })).body).toMatchObject({ totp: false, passkeys: [] });
});

test("where a second factor is required, an account without one can only set it up", async () => {
  const strict = testServer({ ...LIMITS, SECOND_FACTOR: "required" });
  const { email, password: own } = { email: "new@example.com", password };
  const made = await strict.call("POST", "/v1/auth/register", { body: { email, password: own } });
  expect(made.body.secondFactor).toBe("setup");
  let key = String(made.body.accessToken);
  const projects = () => strict.call("GET", "/v1/projects", { key });
  expect(outcome(await projects())).toBe("403 SVC_SECOND_FACTOR_REQUIRED");
  const { body } = await strict.call("POST", "/v1/auth/factors/totp", { key, body: { password } });
  const code = totpCode(secretOf(String(body.secret)), totpStep(strict.clock.now()));
  key = sessionOf(await strict.call("POST", "/v1/auth/factors/totp/confirm", { key, body: { code } }));
  expect((await projects()).status).toBe(200);
  // Removing it does not leave a session without one.
  expect((await strict.call("POST", "/v1/auth/factors/totp/remove", { key, body: { password } })).status).toBe(204);
  expect(outcome(await projects())).toBe("403 SVC_SECOND_FACTOR_REQUIRED");
  await strict.close();
});

test("an account without a password changes its factors only just after it signed in", async () => {
  const { email, key } = await withCodes();
  await server.runtime.write((unit) => {
    const user = server.services.users.findByEmail(email);
    if (user) server.services.users.update(unit, user.id, { passwordHash: null });
  });
  server.clock.advance(601_000);
  const change = (path: string) => server.call("POST", `/v1/auth/factors/${path}`, { key, body: {} });
  for (const path of ["passkeys/start", "totp", "totp/remove", "recovery-codes", "passkeys/AAAA/remove"]) {
    expect([path, outcome(await change(path))]).toEqual([path, "403 SVC_PERMISSION_DENIED"]);
  }
  server.clock.advance(-601_000);
  expect((await change("totp/remove")).status).toBe(204);
});

test("a session has ten attempts an hour at the current password when it changes the password", async () => {
  const { key } = await account();
  const change = (currentPassword: string) =>
    server.call("POST", "/v1/auth/password", { key, body: { currentPassword, newPassword: "another long password" } });
  for (let i = 0; i < 10; i++) expect((await change(`guess number ${i}`)).status).toBe(400);
  expect((await change(password)).status).toBe(429);
  server.clock.advance(3_600_000);
});

test("a passkey that this server did not ask for is refused", async () => {
  const { key } = await account();
  const response = { id: "AAAA", rawId: "AAAA", type: "public-key", response: {}, clientExtensionResults: {} };
  for (const [path, body] of [
    ["/v1/auth/factors/passkeys", { name: "forged", response }],
    ["/v1/auth/second-factor/passkey", { response }],
    ["/v1/auth/passkey", { response }],
  ] as const) {
    expect([path, outcome(await server.call("POST", path, { key, body }))]).toEqual([
      path,
      "400 SVC_SECOND_FACTOR_INVALID",
    ]);
  }
  const start = await server.call("POST", "/v1/auth/factors/passkeys/start", { key, body: { password } });
  expect(start.body.options).toMatchObject({
    rp: { id: "localhost" },
    authenticatorSelection: { userVerification: "required" },
  });
});

test("a sign-in from elsewhere is mailed to its user, one from a known browser is not", async () => {
  const { email } = await account();
  const mailed: string[] = [];
  const { mailer } = server.services;
  const { post } = mailer;
  Object.assign(mailer, {
    delivers: true,
    post: (compose: () => Promise<{ subject: string; text: string } | null>) =>
      void compose().then((mail) => mail && mailed.push(`${mail.subject}\n${mail.text}`)),
  });
  await server.runtime.write((unit) => {
    const user = server.services.users.findByEmail(email);
    if (user) server.services.users.update(unit, user.id, { emailVerified: true });
  });
  const signIn = (agent: string) =>
    server.call("POST", "/v1/auth/login", { body: { email, password }, headers: { "user-agent": agent } });
  await signIn("Browser/1");
  await signIn("Browser/1");
  await signIn("Phone/2\r\nX: y".replace("\r\n", " "));
  expect(mailed.filter((text) => text.startsWith("New sign-in"))).toHaveLength(2);
  expect(mailed.at(-1)).toContain("Phone/2");
  // With no session left to compare with, every client is unknown.
  await server.runtime.write((unit) => {
    const user = server.services.users.findByEmail(email);
    if (user) server.services.sessions.endAll(unit, user.id);
  });
  server.clock.advance(86_400_000);
  await signIn("Stranger/3");
  Object.assign(mailer, { delivers: false, post });
  expect(mailed.at(-1)).toContain("Stranger/3");
});

describe("a passkey", () => {
  const device = () => createAuthenticator("http://localhost");
  const send = async (path: string, key: string | undefined, body: object = {}) =>
    server.call("POST", path, { ...(key === undefined ? {} : { key }), body });
  const optionsOf = async (path: string, key?: string, body: object = {}) =>
    (await send(path, key, body)).body.options as { challenge: string };

  /** An account with a passkey on a device. */
  async function withPasskey(authenticator = device()) {
    const { email, key } = await account();
    const response = authenticator.create(await optionsOf("/v1/auth/factors/passkeys/start", key, { password }));
    const added = await send("/v1/auth/factors/passkeys", key, { name: "laptop", response });
    return { email, key: added.status === 201 ? sessionOf(added) : key, before: key, authenticator, added, response };
  }

  test("is added with recovery codes, confirms a sign-in, and signs in by itself", async () => {
    const { email, key, before, authenticator, added, response } = await withPasskey();
    expect(outcome(await server.call("GET", "/v1/projects", { key: before }))).toBe("401 SVC_TOKEN_REVOKED");
    expect([added.status, added.body.passkey]).toMatchObject([201, { name: "laptop", lastUsedAt: null }]);
    expect(added.body.recoveryCodes).toHaveLength(10);
    // A challenge is good for one answer.
    expect(outcome(await send("/v1/auth/factors/passkeys", key, { name: "again", response }))).toBe(
      "400 SVC_SECOND_FACTOR_INVALID",
    );

    const half = await login(email);
    expect(half.secondFactor).toBe("verify");
    const shown = authenticator.get(await optionsOf("/v1/auth/second-factor/passkey/start", half.key));
    const { status, body } = await send("/v1/auth/second-factor/passkey", half.key, { response: shown });
    expect([status, body.secondFactor]).toEqual([200, null]);
    const whole = String(body.accessToken);
    expect((await server.call("GET", "/v1/projects", { key: whole })).status).toBe(200);
    expect(outcome(await server.call("GET", "/v1/projects", { key: half.key }))).toBe("401 SVC_TOKEN_REVOKED");
    expect(outcome(await send("/v1/auth/second-factor/passkey", whole, { response: shown }))).toBe(
      "400 SVC_SECOND_FACTOR_INVALID",
    );

    const alone = authenticator.get(await optionsOf("/v1/auth/passkey/start"));
    const signedIn = await send("/v1/auth/passkey", undefined, { response: alone });
    expect(signedIn.body).toMatchObject({ secondFactor: null, user: { email } });
    const list = await server.call("GET", "/v1/auth/factors", { key: String(signedIn.body.accessToken) });
    const [listed] = list.body.passkeys as { id: string; lastUsedAt: string }[];
    expect(listed?.lastUsedAt).toEqual(expect.any(String));
    const remove = `/v1/auth/factors/passkeys/${listed?.id}/remove`;
    expect(outcome(await send(remove, (await account()).key, { password }))).toBe("404 SVC_PASSKEY_NOT_FOUND");
    expect((await send(remove, key, { password })).status).toBe(204);
    expect((await login(email)).secondFactor).toBeNull();
  });

  test("is refused for another site, account or purpose, and without user verification", async () => {
    const mine = await withPasskey();
    const other = await withPasskey();
    const half = await login(mine.email);
    const refused = async (response: object) =>
      outcome(await send("/v1/auth/second-factor/passkey", half.key, { response }));
    const start = () => optionsOf("/v1/auth/second-factor/passkey/start", half.key);
    expect(await refused(other.authenticator.get(await start()))).toBe("400 SVC_SECOND_FACTOR_INVALID");
    // Only present, not verified.
    expect(await refused(mine.authenticator.get(await start(), 0x01))).toBe("400 SVC_SECOND_FACTOR_INVALID");
    expect(await refused(mine.authenticator.get(await optionsOf("/v1/auth/passkey/start")))).toBe(
      "400 SVC_SECOND_FACTOR_INVALID",
    );
    const phished = await withPasskey(createAuthenticator("https://phishing.example"));
    expect(outcome(phished.added)).toBe("400 SVC_SECOND_FACTOR_INVALID");
    for (const forged of [{ site: "https://phishing.example" }, { count: 1 }]) {
      const response = mine.authenticator.get(await start(), undefined, forged);
      expect([forged, await refused(response)]).toEqual([forged, "400 SVC_SECOND_FACTOR_INVALID"]);
    }
    const late = await start();
    server.clock.advance(300_001);
    expect(await refused(mine.authenticator.get(late))).toBe("400 SVC_SECOND_FACTOR_INVALID");
    expect(await refused(mine.authenticator.get(await start()))).toBe("200");
  });
});
