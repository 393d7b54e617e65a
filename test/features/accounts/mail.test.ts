import { afterAll, beforeEach, expect, test } from "bun:test";
import { totpCode, totpStep } from "../../../src/features/accounts/second-factor/totp.ts";
import { createAuthenticator, secretOf } from "../../harness/authenticator.ts";
import { mailServer } from "../../harness/mail.ts";
import { testServer } from "../../harness/server.ts";

const post = await mailServer();
const server = testServer({
  SMTP_URL: post.url,
  MAIL_FROM: "Stoa <stoa@rtc.example>",
  PUBLIC_URL: "https://rtc.example",
  REGISTRATION: "open",
  RATE_LIMIT_AUTH_REGISTER: 1000,
  RATE_LIMIT_AUTH_LOGIN: 1000,
  RATE_LIMIT_AUTH_VERIFY_EMAIL: 1000,
  RATE_LIMIT_AUTH_VERIFY_EMAIL_RESEND: 1000,
  RATE_LIMIT_AUTH_PASSWORD_RESET: 1000,
  RATE_LIMIT_AUTH_PASSWORD_RESET_CONFIRM: 1000,
});
afterAll(async () => {
  await server.close();
  await post.close();
});
beforeEach(async () => {
  // The test before may not have waited for its mails.
  await server.services.mailer.drain();
  post.mails.splice(0);
});

const PASSWORD = "correct horse battery";
const auth = (path: string, body: unknown) => server.call("POST", `/v1/auth/${path}`, { body });
const login = (email: string, password = PASSWORD) => auth("login", { email, password });

/** The one mail that `cause` sends. */
async function mailOf(cause: () => Promise<{ status: number }>, status: number) {
  const before = post.mails.length;
  expect((await cause()).status).toBe(status);
  await server.services.mailer.drain();
  expect(post.mails.length).toBe(before + 1);
  const mail = post.mails.at(-1);
  if (!mail) throw new Error("no mail");
  return mail;
}

const registering = (email: string) => () => auth("register", { email, password: PASSWORD });

test("[5] a new address gets no session before it is verified by the link in its mail", async () => {
  const mail = await mailOf(registering("new@example.com"), 201);
  expect(mail).toMatchObject({ to: "new@example.com", from: "Stoa <stoa@rtc.example>" });
  expect(mail.link).toMatch(/^https:\/\/rtc\.example\/verify-email#token=[\w-]{43}$/);

  const early = await login("new@example.com");
  expect([early.status, early.body.code]).toEqual([403, "SVC_EMAIL_NOT_VERIFIED"]);

  const verified = await auth("verify-email", { token: mail.token });
  expect(verified.status).toBe(200);
  expect(verified.body).toMatchObject({ user: { emailVerified: true }, accessToken: expect.any(String) });
  expect(verified.headers.get("set-cookie")).toContain("; Secure");
  expect((await login("new@example.com")).status).toBe(200);
});

test("[5] registering with verification pending returns the user without tokens", async () => {
  const { body, headers } = await registering("pending@example.com")();
  expect(Object.keys(body)).toEqual(["user"]);
  expect(headers.has("set-cookie")).toBe(false);
});

test("[5] a wrong password for an unverified account gets the same error as any other", async () => {
  await registering("quiet@example.com")();
  expect((await login("quiet@example.com", "wrong password")).body.code).toBe("SVC_INVALID_CREDENTIALS");
});

test("[5] a link works once, and for its own purpose only", async () => {
  const { token } = await mailOf(registering("once@example.com"), 201);
  const misused = await auth("password-reset/confirm", { token, password: PASSWORD });
  expect([misused.status, misused.body.code]).toEqual([400, "SVC_INVALID_ONE_TIME_TOKEN"]);
  expect((await auth("verify-email", { token })).status).toBe(200);
  const again = await auth("verify-email", { token });
  expect([again.status, again.body.code]).toEqual([400, "SVC_INVALID_ONE_TIME_TOKEN"]);
});

test("[5] a link lasts one hour", async () => {
  const first = await mailOf(registering("hour@example.com"), 201);
  server.clock.advance(3_599_999);
  const second = await mailOf(() => auth("verify-email/resend", { email: "hour@example.com" }), 202);
  server.clock.advance(1);
  expect((await auth("verify-email", { token: first.token })).body.code).toBe("SVC_INVALID_ONE_TIME_TOKEN");
  expect((await auth("verify-email", { token: second.token })).status).toBe(200);
});

test("[5] resend and reset respond alike for known, unknown and verified addresses, and mail only those concerned", async () => {
  await mailOf(registering("waiting@example.com"), 201);
  const done = await mailOf(registering("done@example.com"), 201);
  await auth("verify-email", { token: done.token });
  post.mails.splice(0);

  const answers = new Set<string>();
  for (const email of ["waiting@example.com", "done@example.com", "nobody@example.com"]) {
    for (const path of ["verify-email/resend", "password-reset"]) {
      const { status, text } = await auth(path, { email });
      answers.add(`${status} ${text}`);
    }
  }
  expect([...answers]).toEqual(['202 {"status":"accepted"}']);
  await server.services.mailer.drain();
  expect(post.mails.map(({ to, subject }) => `${to}: ${subject}`).sort()).toEqual([
    "done@example.com: Choose a new password",
    "waiting@example.com: Choose a new password",
    "waiting@example.com: Confirm your e-mail address",
  ]);
});

test("[5] a reset sets the password, verifies the address and ends every session", async () => {
  const { token } = await mailOf(registering("reset@example.com"), 201);
  const old = await auth("verify-email", { token });
  const other = await login("reset@example.com");
  const mail = await mailOf(() => auth("password-reset", { email: "RESET@example.com" }), 202);
  expect(mail.link).toStartWith("https://rtc.example/password-reset#token=");

  const confirmed = await auth("password-reset/confirm", { token: mail.token, password: "a new password" });
  expect(confirmed.status).toBe(200);
  const me = (token: unknown) => server.call("GET", "/v1/auth/me", { key: String(token) });
  for (const ended of [old, other]) expect((await me(ended.body.accessToken)).body.code).toBe("SVC_TOKEN_REVOKED");
  expect((await me(confirmed.body.accessToken)).status).toBe(200);
  expect((await login("reset@example.com")).status).toBe(401);
  expect((await login("reset@example.com", "a new password")).status).toBe(200);
  expect((await auth("password-reset/confirm", { token: mail.token, password: "third password" })).status).toBe(400);
});

test("[5] a password that is refused does not use up the link", async () => {
  const { token } = await mailOf(registering("twice@example.com"), 201);
  await auth("verify-email", { token });
  const reset = await mailOf(() => auth("password-reset", { email: "twice@example.com" }), 202);
  expect((await auth("password-reset/confirm", { token: reset.token, password: "x".repeat(9) })).status).toBe(400);
  expect((await auth("password-reset/confirm", { token: reset.token, password: "x".repeat(10) })).status).toBe(200);
});

test("[5] a forged Host header does not choose where a link leads", async () => {
  const forged = () =>
    server.call("POST", "/v1/auth/register", {
      body: { email: "host@example.com", password: PASSWORD },
      headers: { host: "evil.example", "x-forwarded-host": "evil.example" },
    });
  const mail = await mailOf(forged, 201);
  expect(mail.text).not.toContain("evil.example");
});

test("[5] a mail server that refuses is logged, and the response stays the same", async () => {
  post.refuse(true);
  const { status } = await registering("refused@example.com")();
  await server.services.mailer.drain();
  post.refuse(false);
  expect(status).toBe(201);
  expect(server.logLines.some((line) => line.includes("mail: sending failed"))).toBe(true);
  expect(await mailOf(() => auth("verify-email/resend", { email: "refused@example.com" }), 202)).toBeDefined();
});

test("[5] no token of a mail, no password and no login of the mail server reaches the log or the database", async () => {
  const { token } = await mailOf(registering("secret@example.com"), 201);
  const reset = await mailOf(() => auth("password-reset", { email: "secret@example.com" }), 202);
  await auth("verify-email", { token });
  const dump = JSON.stringify(server.runtime.db.$client.query("SELECT * FROM one_time_tokens").all());
  const log = server.logLines.join("");
  for (const secret of [token, reset.token, PASSWORD, "p@ss", "p%40ss"]) {
    expect(log).not.toContain(secret);
    expect(dump).not.toContain(secret);
  }
});

/** Registers a verified account, and makes the requests that change its second factors. */
async function factorRequests(email: string) {
  const { token } = await mailOf(registering(email), 201);
  let key = String((await auth("verify-email", { token })).body.accessToken);
  return async (path: string, body: object) => {
    const answer = await server.call("POST", `/v1/auth/factors/${path}`, { key, body });
    // The first factor replaces the session.
    const { session } = answer.body as { session?: { accessToken: string } };
    key = session?.accessToken ?? key;
    return answer;
  };
}

test("[5] each change of a second factor is mailed to the owner of the account, and a refused one is not", async () => {
  const email = "factors@example.com";
  const factor = await factorRequests(email);
  const sent = post.mails.length;
  const { body } = await factor("totp", { password: PASSWORD });
  const secret = secretOf(String(body.secret));
  const code = totpCode(secret, totpStep(server.clock.now()));
  expect((await factor("totp/confirm", { code: "000000" })).status).toBe(400);
  expect((await factor("totp/remove", { password: "wrong password" })).status).toBe(400);
  await server.services.mailer.drain();
  expect(post.mails.length).toBe(sent);

  const mail = await mailOf(() => factor("totp/confirm", { code }), 200);
  expect(mail).toMatchObject({ to: email, subject: "The second factors of your account have changed" });
  expect(mail.text).toContain("One-time codes were set up on ");
  expect(mail.link).toBe("https://rtc.example/account");
  const codes = await mailOf(() => factor("recovery-codes", { password: PASSWORD }), 200);
  expect(codes.text).toContain("The recovery codes were replaced on ");
  const removed = await mailOf(() => factor("totp/remove", { password: PASSWORD }), 204);
  expect(removed.text).toContain("One-time codes were removed on ");
  for (const { text } of [mail, codes, removed]) expect(text).not.toContain(String(body.secret));
});

test("[5] a passkey that is added or removed is mailed to the owner of the account", async () => {
  const email = "passkeys@example.com";
  const factor = await factorRequests(email);
  const { options } = (await factor("passkeys/start", { password: PASSWORD })).body as {
    options: { challenge: string };
  };
  const response = createAuthenticator("https://rtc.example").create(options);
  let id = "";
  const adding = async () => {
    const answer = await factor("passkeys", { name: "laptop", response });
    id = (answer.body.passkey as { id: string }).id;
    return answer;
  };
  const added = await mailOf(adding, 201);
  expect(added.text).toContain("A passkey was added on ");
  const removed = await mailOf(() => factor(`passkeys/${id}/remove`, { password: PASSWORD }), 204);
  expect(removed.text).toContain("A passkey was removed on ");
});
