import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";

const server = testServer({ REGISTRATION: "open", RATE_LIMIT_AUTH_LOGIN: 1000, RATE_LIMIT_AUTH_REGISTER: 1000 });
afterAll(server.close);

const PASSWORD = "correct horse battery";

async function register(email: string) {
  const reply = await server.call("POST", "/v1/auth/register", { body: { email, password: PASSWORD, name: "Ada" } });
  expect(reply.status).toBe(201);
  return { ...reply, cookie: cookieOf(reply.headers), token: String(reply.body.accessToken) };
}

function cookieOf(headers: Headers): string {
  return /^stoa_refresh=[^;]*/.exec(headers.get("set-cookie") ?? "")?.[0] ?? "";
}

const me = (token: string) => server.call("GET", "/v1/auth/me", { key: token });
const refresh = (cookie: string) => server.call("POST", "/v1/auth/refresh", { headers: { cookie } });

test("[5] registering gives a session that reads its own user", async () => {
  const { body, headers, token } = await register("ada@example.com");
  expect(body).toEqual({
    user: {
      id: expect.any(String),
      email: "ada@example.com",
      name: "Ada",
      emailVerified: false,
      isOperator: true,
      createdAt: "2026-03-01T12:00:00.000Z",
    },
    accessToken: expect.any(String),
    expiresIn: 3600,
    secondFactor: null,
  });
  expect(headers.get("set-cookie")).toMatch(
    /^stoa_refresh=[\w-]{43}; Path=\/v1\/auth; Max-Age=2592000; HttpOnly; SameSite=Strict$/,
  );
  const { status, body: user } = await me(token);
  expect(status).toBe(200);
  expect(user).toEqual(body.user as Record<string, unknown>);
});

test("[5] only the first account is an operator", async () => {
  const { body } = await register("second@example.com");
  expect(body.user).toMatchObject({ isOperator: false });
});

test("[5] an address can be registered once, whatever the case of its letters", async () => {
  await register("once@example.com");
  const again = await server.call("POST", "/v1/auth/register", {
    body: { email: " ONCE@Example.com ", password: PASSWORD },
  });
  expect([again.status, again.body.code]).toEqual([409, "SVC_CONFLICT"]);
});

test("[5] a wrong password and an unknown address get the same answer", async () => {
  await register("known@example.com");
  const answers = [];
  for (const email of ["known@example.com", "unknown@example.com"]) {
    const { status, body } = await server.call("POST", "/v1/auth/login", {
      body: { email, password: "wrong password" },
    });
    answers.push({ status, code: body.code, message: body.message });
  }
  expect(answers[0]).toEqual({ status: 401, code: "SVC_INVALID_CREDENTIALS", message: expect.any(String) });
  expect(answers[1]).toEqual(answers[0]);
});

test("[5] a session lasts an hour, and its cookie renews it", async () => {
  const { token, cookie } = await register("hour@example.com");
  server.clock.advance(3599_000);
  expect((await me(token)).status).toBe(200);
  server.clock.advance(1_000);
  const expired = await me(token);
  expect([expired.status, expired.body.code]).toEqual([401, "SVC_TOKEN_EXPIRED"]);

  const renewed = await refresh(cookie);
  expect(renewed.status).toBe(200);
  expect((await me(String(renewed.body.accessToken))).status).toBe(200);
});

test("[5] a refresh token lasts 30 days from its last use", async () => {
  const { cookie } = await register("month@example.com");
  server.clock.advance(30 * 86_400_000 - 1);
  const renewed = await refresh(cookie);
  expect(renewed.status).toBe(200);
  server.clock.advance(30 * 86_400_000);
  expect((await refresh(cookieOf(renewed.headers))).status).toBe(401);
});

test("[5] using a rotated refresh token ends the session for all who hold it", async () => {
  const { cookie } = await register("thief@example.com");
  const renewed = await refresh(cookie);
  // This is later than a second tab or a lost response would send it.
  server.clock.advance(20_000);
  const stolen = await refresh(cookie);
  expect([stolen.status, stolen.body.code]).toEqual([401, "SVC_AUTH_ERROR"]);
  expect(stolen.headers.get("set-cookie")).toContain("Max-Age=0");
  expect((await refresh(cookieOf(renewed.headers))).status).toBe(401);
  expect((await me(String(renewed.body.accessToken))).body.code).toBe("SVC_TOKEN_REVOKED");
});

test("[5] logout ends the session at once, and no other", async () => {
  const { token, cookie } = await register("leaving@example.com");
  const other = await server.call("POST", "/v1/auth/login", {
    body: { email: "leaving@example.com", password: PASSWORD },
  });
  const left = await server.call("POST", "/v1/auth/logout", { key: token });
  expect([left.status, left.text]).toEqual([204, ""]);
  expect(left.headers.get("set-cookie")).toContain("Max-Age=0");
  expect((await me(token)).body.code).toBe("SVC_TOKEN_REVOKED");
  expect((await refresh(cookie)).status).toBe(401);
  expect((await me(String(other.body.accessToken))).status).toBe(200);
});

test("[5] logout works by the cookie when the token has expired, and needs one of both", async () => {
  const { cookie } = await register("late@example.com");
  server.clock.advance(3600_000);
  expect((await server.call("POST", "/v1/auth/logout", { headers: { cookie } })).status).toBe(204);
  expect((await refresh(cookie)).status).toBe(401);
  expect((await server.call("POST", "/v1/auth/logout")).status).toBe(401);
});

test("[5] a user can change the name; an empty name removes it", async () => {
  const { token } = await register("rename@example.com");
  const patch = (body: unknown) => server.call("PATCH", "/v1/auth/me", { key: token, body });
  expect((await patch({ name: "Grace" })).body.name).toBe("Grace");
  expect((await patch({})).body.name).toBe("Grace");
  expect((await patch({ name: "x".repeat(80) })).status).toBe(200);
  expect((await patch({ name: "x".repeat(81) })).status).toBe(400);
  expect((await patch({ name: null })).body.name).toBeNull();
});

test("[5] the auth routes are closed to other origins", async () => {
  const { cookie } = await register("origin@example.com");
  const headers = { cookie, origin: "https://evil.example" };
  const { status, body } = await server.call("POST", "/v1/auth/refresh", { headers });
  expect([status, body.code]).toEqual([403, "SVC_ORIGIN_NOT_ALLOWED"]);
  expect((await refresh(cookie)).status).toBe(200);
});
