import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";

const server = testServer();
afterAll(server.close);

const { projectId, key } = await server.project();
const { token } = await server.session({ projectId, role: "ADMIN" });

const setOrigins = (body: unknown) =>
  server.call("PATCH", `/v1/projects/${projectId}/allowed-origins`, { key: token, body });
const from = async (origin: string) => (await server.call("GET", "/v1/project", { key, headers: { origin } })).status;

test("[4.6] the list is replaced as a whole, with each origin in the form that browsers send", async () => {
  const { status, body } = await setOrigins({
    allowedOrigins: ["HTTPS://App.Example.com/", "https://app.example.com:443", "http://10.0.0.1:8080"],
  });
  expect(status).toBe(200);
  expect(body).toMatchObject({
    allowedOrigins: ["https://app.example.com", "http://10.0.0.1:8080"],
    allowLocalhostOrigins: true,
  });
  expect((await setOrigins({ allowedOrigins: ["https://b.example"] })).body.allowedOrigins).toEqual([
    "https://b.example",
  ]);
});

test("[4.6] an invalid origin is refused with its index in the list, and changes nothing", async () => {
  await setOrigins({ allowedOrigins: ["https://kept.example"] });
  for (const bad of [
    "example.com",
    "ftp://a.example",
    "https://a.example/path",
    "https://u:p@a.example",
    "null",
    "*",
    "",
  ]) {
    const { status, body } = await setOrigins({ allowedOrigins: ["https://ok.example", bad] });
    expect([bad, status, body.details]).toEqual([
      bad,
      400,
      [{ field: "allowedOrigins.1", message: expect.any(String) }],
    ]);
  }
  expect((await setOrigins({})).status).toBe(400);
  expect((await setOrigins({ allowedOrigins: "https://a.example" })).status).toBe(400);
  const many = Array.from({ length: 101 }, (_, i) => `https://a${i}.example`);
  expect((await setOrigins({ allowedOrigins: many })).status).toBe(400);
  expect((await server.call("GET", "/v1/project", { key })).body.allowedOrigins).toEqual(["https://kept.example"]);
  expect((await setOrigins({ allowedOrigins: many.slice(1) })).status).toBe(200);
});

test("[4.6] an empty list allows any origin; a list allows itself, and localhost unless switched off", async () => {
  await setOrigins({ allowedOrigins: [], allowLocalhostOrigins: true });
  expect(await from("https://anywhere.example")).toBe(200);

  await setOrigins({ allowedOrigins: ["https://a.example"] });
  expect(await from("https://a.example")).toBe(200);
  expect(await from("https://anywhere.example")).toBe(403);
  expect(await from("https://a.example:8443")).toBe(403);
  expect(await from("http://a.example")).toBe(403);
  expect(await from("null")).toBe(403);
  for (const local of ["http://localhost:5173", "https://127.0.0.1", "http://[::1]:3000"]) {
    expect(await from(local)).toBe(200);
  }
  expect(await from("http://localhost.evil.example")).toBe(403);

  await setOrigins({ allowedOrigins: ["https://a.example"], allowLocalhostOrigins: false });
  expect(await from("http://localhost:5173")).toBe(403);
  expect((await server.call("GET", "/v1/project", { key })).status).toBe(200);
});

test("[4.6] the pages of this server are always allowed; the list applies to all others", async () => {
  await setOrigins({ allowedOrigins: ["https://a.example"], allowLocalhostOrigins: false });
  expect(await from("http://localhost")).toBe(200);
  expect(await from("http://localhost:5173")).toBe(403);

  const named = testServer({ PUBLIC_URL: "https://rtc.example" });
  const tenant = await named.project();
  const { token: admin } = await named.session({ projectId: tenant.projectId, role: "ADMIN" });
  const path = `/v1/projects/${tenant.projectId}/allowed-origins`;
  const body = { allowedOrigins: ["https://a.example"], allowLocalhostOrigins: false };
  expect((await named.call("PATCH", path, { key: admin, body })).status).toBe(200);
  const statusFrom = async (origin: string) =>
    (await named.call("GET", "/v1/project", { key: tenant.key, headers: { origin } })).status;
  expect(await statusFrom("https://rtc.example")).toBe(200);
  // With PUBLIC_URL set, the Host header of a request is ignored.
  expect(await statusFrom("http://localhost")).toBe(403);
  expect(await statusFrom("https://rtc.example.evil.example")).toBe(403);
  await named.close();
});

test("[contract 16] an entry that no page can have as its origin is refused", async () => {
  for (const never of ["https://*.example.com", "https://*", "http://exa*mple.com", "https://a..b"]) {
    const { status, body } = await setOrigins({ allowedOrigins: [never] });
    expect([never, status]).toEqual([never, 400]);
    expect((body.details as { field: string }[])[0]?.field).toBe("allowedOrigins.0");
  }
  for (const possible of [
    "https://xn--bcher-kva.example",
    "https://bücher.example",
    "http://[::1]:3000",
    "http://host_1",
  ]) {
    expect([possible, (await setOrigins({ allowedOrigins: [possible] })).status]).toEqual([possible, 200]);
  }
});

test("[contract 16] the refusal of a page names its origin and the setting that would allow it", async () => {
  await setOrigins({ allowedOrigins: ["https://a.example"] });
  const origin = "https://b.example:8443";
  const { status, body } = await server.call("GET", "/v1/project", { key, headers: { origin } });
  expect([status, body.code]).toEqual([403, "SVC_ORIGIN_NOT_ALLOWED"]);
  expect(body.message).toContain(origin);
  expect(body.message).toContain("allowedOrigins");
});
