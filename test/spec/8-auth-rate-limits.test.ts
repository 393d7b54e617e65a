import { afterAll, describe, expect, test } from "bun:test";
import { OIDC_CLIENT, oidcServer } from "../harness/oidc.ts";
import { type TestServer, testServer } from "../harness/server.ts";

const acme = await oidcServer(["http://localhost/oauth/acme/callback"]);
const servers: TestServer[] = [];
afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()));
  await acme.close();
});

/** With a trusted proxy, so that a test can come from several addresses. */
function newServer() {
  const server = testServer({
    TRUSTED_PROXIES: ["127.0.0.1"],
    OAUTH: { acme: { issuer: acme.issuer, ...OIDC_CLIENT } },
  });
  servers.push(server);
  return server;
}

const from = (ip: string) => ({ "x-forwarded-for": ip });

const BY_ADDRESS: [path: string, budget: number, body: unknown][] = [
  ["/v1/auth/register", 5, { email: "a@example.com", password: "short" }],
  ["/v1/auth/login", 10, { email: 1 }],
  ["/v1/auth/verify-email", 10, { token: "wrong" }],
  ["/v1/auth/verify-email/resend", 3, { email: "a@example.com" }],
  ["/v1/auth/password-reset", 5, { email: "a@example.com" }],
  ["/v1/auth/password-reset/confirm", 5, { token: "wrong", password: "long enough password" }],
  ["/v1/auth/oauth/acme/start", 20, undefined],
  ["/v1/auth/oauth/acme/exchange", 10, { code: "wrong", state: "wrong" }],
];

for (const [path, budget, body] of BY_ADDRESS) {
  describe(`[8] POST ${path}: ${budget} in 60 s from one address`, () => {
    const server = newServer();
    const post = (ip: string) => server.call("POST", path, { body, headers: from(ip) });

    test("all requests count, failed ones too, and the next one is refused first", async () => {
      for (let n = 1; n <= budget; n++) {
        const { status, headers } = await post("192.0.2.1");
        expect(status).not.toBe(429);
        expect(headers.get("ratelimit-limit")).toBe(String(budget));
        expect(headers.get("ratelimit-remaining")).toBe(String(budget - n));
        expect(headers.get("ratelimit-reset")).toBe("60");
      }
      server.clock.advance(1_500);
      const { status, headers, body } = await post("192.0.2.1");
      expect(status).toBe(429);
      expect(body).toMatchObject({ code: "SVC_RATE_LIMITED", legacyCode: "RATE_LIMITED", retryAfterSeconds: 59 });
      expect(headers.get("retry-after")).toBe("59");
      expect(headers.get("ratelimit-remaining")).toBe("0");
      expect(headers.get("ratelimit-reset")).toBe("59");
    });

    test("every address has its own budget, and the window ends at its time", async () => {
      expect((await post("192.0.2.2")).status).not.toBe(429);
      server.clock.advance(58_499);
      expect((await post("192.0.2.1")).status).toBe(429);
      server.clock.advance(1);
      const { status, headers } = await post("192.0.2.1");
      expect(status).not.toBe(429);
      expect(headers.get("ratelimit-remaining")).toBe(String(budget - 1));
    });
  });
}

test("[8] a request with an invalid body counts as well", async () => {
  const server = newServer();
  for (let n = 0; n < 10; n++) {
    const { status } = await server.call("POST", "/v1/auth/login", { raw: "{ not json", headers: from("192.0.2.9") });
    expect(status).toBe(400);
  }
  expect((await server.call("POST", "/v1/auth/login", { raw: "{", headers: from("192.0.2.9") })).status).toBe(429);
});

test("[8] routes have separate budgets, and the providers of one route share one", async () => {
  const server = newServer();
  for (let n = 0; n < 3; n++) await server.call("POST", "/v1/auth/verify-email/resend", { body: {} });
  expect((await server.call("POST", "/v1/auth/verify-email/resend", { body: {} })).status).toBe(429);
  expect((await server.call("POST", "/v1/auth/verify-email", { body: {} })).status).toBe(400);

  for (let n = 0; n < 20; n++) await server.call("POST", "/v1/auth/oauth/acme/start");
  expect((await server.call("POST", "/v1/auth/oauth/other/start")).status).toBe(429);
});

describe("[8] POST /v1/projects/{projectId}/api-keys: 20 in 60 s for one user", () => {
  const server = newServer();
  const create = (key: string, projectId: string, ip: string, body: unknown = { name: "k" }) =>
    server.call("POST", `/v1/projects/${projectId}/api-keys`, { key, body, headers: from(ip) });

  test("requests are counted by user, regardless of address, session, project and outcome", async () => {
    const ada = await server.session({ role: "OWNER" });
    const other = await server.call("POST", "/v1/projects", { key: ada.token, body: { name: "second" } });
    for (let n = 1; n <= 20; n++) {
      const projectId = n % 2 === 0 ? ada.projectId : String(other.body.id);
      const { status, headers } = await create(ada.token, projectId, `192.0.2.${n}`, n === 7 ? {} : { name: "k" });
      expect(status).toBe(n === 7 ? 400 : 201);
      expect(headers.get("ratelimit-limit")).toBe("20");
      expect(headers.get("ratelimit-remaining")).toBe(String(20 - n));
    }
    const refused = await create(ada.token, ada.projectId, "192.0.2.200");
    expect([refused.status, refused.body.retryAfterSeconds]).toEqual([429, 60]);

    const grace = await server.session({ projectId: ada.projectId, role: "ADMIN" });
    expect((await create(grace.token, ada.projectId, "192.0.2.200")).status).toBe(201);
  });

  test("a request without a credential gets 401 and uses no budget, and one without permission gets 403", async () => {
    const viewer = await server.session({ role: "VIEWER" });
    for (let n = 0; n < 25; n++) {
      expect((await create("nonsense", viewer.projectId, "192.0.2.1")).status).toBe(401);
      expect((await create(viewer.token, viewer.projectId, "192.0.2.1")).status).toBe(403);
    }
  });
});

test("[8] every budget and the window can be configured", async () => {
  const server = testServer({ RATE_LIMIT_AUTH_LOGIN: 2, RATE_LIMIT_WINDOW_SECONDS: 5 });
  servers.push(server);
  const login = () => server.call("POST", "/v1/auth/login", { body: {} });
  await login();
  await login();
  const { status, headers } = await login();
  expect([status, headers.get("retry-after")]).toEqual([429, "5"]);
  server.clock.advance(5_000);
  expect((await login()).status).toBe(400);
});

test("[8] an IPv6 network has one budget, not one for each of its addresses", async () => {
  const server = testServer({ TRUSTED_PROXIES: ["127.0.0.1"], RATE_LIMIT_AUTH_LOGIN: 2 });
  const from = async (address: string) => {
    const body = { email: "ada@example.com", password: "wrong" };
    const headers = { "x-forwarded-for": address };
    return (await server.call("POST", "/v1/auth/login", { body, headers })).status;
  };
  expect([await from("2001:db8::1"), await from("2001:db8::2"), await from("2001:db8::3")]).toEqual([401, 401, 429]);
  expect(await from("2001:db8:0:1::1")).toBe(401);
  await server.close();
});
