import { afterAll, expect, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const PASSWORD = "correct horse battery";
const servers = [testServer(), testServer({ PUBLIC_URL: "https://rtc.example" })] as const;
const [server, named] = servers;
afterAll(() => Promise.all(servers.map((one) => one.close())));

const register = (at: typeof server, host: string, origin: string | null) =>
  at.call("POST", "/v1/auth/register", {
    body: { email: "operator@example.com", password: PASSWORD },
    headers: { host, ...(origin !== null && { origin }) },
  });

test("[5] a page whose host name was rebound to this server cannot register an account", async () => {
  for (const host of ["rebound.example:7000", "localhost.example", "127.0.0.1.example", "x.localhost.example"]) {
    // With the Origin header of the page's script, and without one.
    for (const origin of [`http://${host}`, null]) {
      const { status, body } = await register(server, host, origin);
      expect([host, status, body.code]).toEqual([host, 403, "SVC_ORIGIN_NOT_ALLOWED"]);
      expect(body.message).toContain("PUBLIC_URL");
    }
  }
  expect((await server.call("GET", "/v1/auth/registration")).body.firstAccount).toBe(true);
});

test("[5] a page whose host name was rebound to this server cannot read its metrics", async () => {
  expect((await server.call("GET", "/metrics", { headers: { host: "rebound.example:7000" } })).status).toBe(403);
  expect((await server.call("GET", "/metrics", { headers: { host: "127.0.0.1:7000" } })).status).toBe(200);
});

test("[5] a page whose host name was rebound does not count as same-origin for a project with allowed origins", async () => {
  const { projectId, key } = await server.project();
  const { token } = await server.session({ projectId, role: "ADMIN" });
  await server.call("PATCH", `/v1/projects/${projectId}/allowed-origins`, {
    key: token,
    body: { allowedOrigins: ["https://app.example"], allowLocalhostOrigins: false },
  });
  const from = async (host: string, origin: string) => {
    const { status, body } = await server.call("GET", "/v1/project", { key, headers: { host, origin } });
    return { status, message: String(body.message) };
  };
  const refused = await from("rebound.example:7000", "http://rebound.example:7000");
  expect(refused.status).toBe(403);
  // The message names what was refused, and where that can be changed.
  expect(refused.message).toContain("http://rebound.example:7000");
  expect(refused.message).toContain("allowedOrigins");
  for (const host of ["localhost:7000", "127.0.0.1:7000", "[::1]:7000", "192.0.2.7:7000"]) {
    expect([host, (await from(host, `http://${host}`)).status]).toEqual([host, 200]);
  }
  // The dashboard's routes are for its own pages only.
  const me = await server.call("GET", "/v1/auth/me", {
    key: token,
    headers: { host: "rebound.example:7000", origin: "http://rebound.example:7000" },
  });
  expect([me.status, me.body.code]).toEqual([403, "SVC_ORIGIN_NOT_ALLOWED"]);
});

test("[5] with PUBLIC_URL set, only its host name is accepted as same-origin", async () => {
  expect((await register(named, "rebound.example", "https://rebound.example")).status).toBe(403);
  expect((await register(named, "rtc.example", "https://rtc.example")).status).toBe(201);
});

test("[10] /metrics sends no CORS headers, so no page of another origin can read it", async () => {
  for (const method of ["GET", "OPTIONS"]) {
    const headers = { origin: "https://evil.example", "access-control-request-method": "GET" };
    const { headers: answered } = await server.call(method, "/metrics", { headers });
    expect([...answered.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
  }
  const elsewhere = await server.call("GET", "/healthz", { headers: { origin: "https://evil.example" } });
  expect(elsewhere.headers.get("access-control-allow-origin")).toBe("https://evil.example");
});
