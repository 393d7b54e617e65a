import { afterAll, expect, spyOn, test } from "bun:test";
import { DUMMY_HASH } from "../../src/features/accounts/passwords.ts";
import { mailServer } from "../harness/mail.ts";
import { testServer } from "../harness/server.ts";

const post = await mailServer();
const limits = {
  RATE_LIMIT_AUTH_REGISTER: 1000,
  RATE_LIMIT_AUTH_LOGIN: 1000,
  RATE_LIMIT_AUTH_VERIFY_EMAIL: 1000,
  RATE_LIMIT_AUTH_PASSWORD_RESET: 1000,
  RATE_LIMIT_AUTH_PASSWORD_RESET_CONFIRM: 1000,
};
const server = testServer({ SMTP_URL: post.url, PUBLIC_URL: "https://rtc.example", REGISTRATION: "open", ...limits });
afterAll(async () => {
  await server.close();
  await post.close();
});

const auth = (path: string, body: unknown, key?: string) => server.call("POST", `/v1/auth/${path}`, { body, key });
const login = async (email: string, password: string) => (await auth("login", { email, password })).status;
const OLD = "the password of before";
const NEW = "the password of now";

/** The token in the mail that `cause` leads to. */
async function linkOf(cause: () => Promise<unknown>): Promise<string> {
  await server.services.mailer.drain();
  const before = post.mails.length;
  await cause();
  await server.services.mailer.drain();
  const token = post.mails[before]?.token;
  if (token === undefined) throw new Error("no mail");
  return token;
}

/** An account that is verified, and the answer that signed it in. */
async function account(email: string) {
  const token = await linkOf(() => auth("register", { email, password: OLD }));
  return auth("verify-email", { token });
}

test("[5] every change of a password invalidates all earlier password-reset links", async () => {
  const ways: [string, (email: string, accessToken: string) => Promise<unknown>][] = [
    ["by its owner", (_, key) => auth("password", { currentPassword: OLD, newPassword: NEW }, key)],
    ["from the command line", (email) => server.services.recovery.setPassword(email, NEW)],
    [
      "by another link",
      async (email) =>
        auth("password-reset/confirm", {
          token: await linkOf(() => auth("password-reset", { email })),
          password: NEW,
        }),
    ],
  ];
  for (const [name, change] of ways) {
    const email = `${name.replaceAll(" ", "-")}@example.com`;
    const { body } = await account(email);
    const stolen = await linkOf(() => auth("password-reset", { email }));
    await change(email, String(body.accessToken));
    const { status, body: refused } = await auth("password-reset/confirm", {
      token: stolen,
      password: "the thief's own",
    });
    expect([name, status, refused.code]).toEqual([name, 400, "SVC_INVALID_ONE_TIME_TOKEN"]);
    expect([name, await login(email, NEW)]).toEqual([name, 200]);
  }
});

test("[5] a password chosen while verifying an address replaces that of whoever registered the address", async () => {
  const email = "victim@example.com";
  const token = await linkOf(() => auth("register", { email, password: OLD }));
  expect(post.mails.at(-1)?.text).toContain("the password of the person who created it");
  const { status, body } = await auth("verify-email", { token, password: NEW });
  expect([status, body.passwordKept]).toEqual([200, false]);
  expect([await login(email, OLD), await login(email, NEW)]).toEqual([401, 200]);
});

test("[5] a password that is changed while it is verified opens nothing", async () => {
  const { body } = await account("racing@example.com");
  const { id: userId } = body.user as { id: string };
  const { users, sessions } = server.services;
  const { passwordHash } = users.get(userId);
  const { verify } = Bun.password;
  const verifying = spyOn(Bun.password, "verify").mockImplementation(async (...given) => {
    const matches = await verify(...given);
    await server.runtime.write((unit) => {
      users.update(unit, userId, { passwordHash: DUMMY_HASH });
      sessions.endAll(unit, userId);
    });
    return matches;
  });
  try {
    const changed = await auth("factors/totp", { password: OLD }, String(body.accessToken));
    expect([changed.status, changed.body.code]).toEqual([401, "SVC_TOKEN_REVOKED"]);
    await server.runtime.write((unit) => void users.update(unit, userId, { passwordHash }));
    const signedIn = await auth("login", { email: "racing@example.com", password: OLD });
    expect([signedIn.status, signedIn.body.code]).toEqual([401, "SVC_INVALID_CREDENTIALS"]);
  } finally {
    verifying.mockRestore();
  }
});

test("[5] a verification without a new password says that the earlier password is kept", async () => {
  const { status, body } = await account("trusting@example.com");
  expect([status, body.passwordKept]).toEqual([200, true]);
  expect((await auth("verify-email", { token: "x", password: "short" })).status).toBe(400);
});

/** A browser with its cookie. */
function browser(cookie: string) {
  const refresh = (sent: string) => server.call("POST", "/v1/auth/refresh", { headers: { cookie: sent } });
  return { cookie, refresh };
}
const cookieOf = (headers: Headers) => /^[^;]+/.exec(headers.get("set-cookie") ?? "")?.[0] ?? "";

test("[2] the session survives tabs that use one refresh token at the same time, and a lost response", async () => {
  const { headers } = await account("tabs@example.com");
  const { cookie, refresh } = browser(cookieOf(headers));
  const answers = await Promise.all([refresh(cookie), refresh(cookie), refresh(cookie)]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  // The browser keeps the last of them, and renews by it as ever.
  const last = cookieOf(answers[2].headers);
  server.clock.advance(3_600_000);
  expect((await refresh(last)).status).toBe(200);
});

test("[2] a refresh token that is used again after twenty seconds ends the session", async () => {
  const { headers } = await account("late@example.com");
  const { cookie, refresh } = browser(cookieOf(headers));
  const renewed = cookieOf((await refresh(cookie)).headers);
  server.clock.advance(19_999);
  const successor = await refresh(cookie);
  expect(successor.status).toBe(200);
  server.clock.advance(1);
  expect((await refresh(cookie)).status).toBe(401);
  for (const other of [renewed, cookieOf(successor.headers)]) expect((await refresh(other)).status).toBe(401);
});

test("[2] a stolen refresh token ends the session if its successor has been used", async () => {
  const { headers } = await account("robbed@example.com");
  const { cookie, refresh } = browser(cookieOf(headers));
  const second = cookieOf((await refresh(cookie)).headers);
  const third = cookieOf((await refresh(second)).headers);
  expect((await refresh(cookie)).status).toBe(401);
  expect((await refresh(third)).status).toBe(401);
});

test("[8] renewing a session in a loop adds a limited number of rows", async () => {
  const { headers } = await account("loop@example.com");
  let { cookie } = browser(cookieOf(headers));
  const { refresh } = browser(cookie);
  const count = () =>
    server.runtime.db.$client.query<{ rows: number }, []>("SELECT count(*) AS rows FROM refresh_tokens").get()?.rows ??
    0;
  const before = count();
  for (let i = 0; i < 800; i++) {
    server.clock.advance(1);
    cookie = cookieOf((await refresh(cookie)).headers);
  }
  expect(count() - before).toBeLessThanOrEqual(721);
  expect((await refresh(cookie)).status).toBe(200);
});
