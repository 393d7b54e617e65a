import { afterAll, expect, spyOn, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const server = testServer({ REGISTRATION: "open" });
afterAll(server.close);

const { key } = await server.project();
const { token } = await server.session({ role: "OWNER" });
const MIB = 1024 * 1024;

const post = (raw: string, headers: Record<string, string> = {}) =>
  server.call("POST", "/v1/projects", { key: token, raw, headers });

/** A body of exactly `bytes` bytes that is a valid project. */
function bodyOf(bytes: number): string {
  const frame = JSON.stringify({ name: "x", padding: "" });
  return JSON.stringify({ name: "x", padding: "p".repeat(bytes - frame.length) });
}

test("[7] a crash inside a handler is a 500 that shows neither message nor stack; the log shows both", async () => {
  const crash = spyOn(server.services.projects, "presentToKey").mockImplementation(() => {
    throw new Error("SELECT broke at /srv/inside.ts");
  });
  const { status, body, text, headers } = await server.call("GET", "/v1/project", { key });
  crash.mockRestore();
  expect(status).toBe(500);
  expect(body).toEqual({
    code: "SVC_INTERNAL_ERROR",
    legacyCode: "INTERNAL_ERROR",
    message: expect.any(String),
    requestId: String(headers.get("x-request-id")),
    path: "/v1/project",
  });
  expect(text).not.toContain("SELECT");
  expect(text).not.toContain(".ts");
  const line = server.logLines.find((one) => one.includes("request failed")) ?? "{}";
  expect(JSON.parse(line)).toMatchObject({
    requestId: String(headers.get("x-request-id")),
    err: { message: "SELECT broke at /srv/inside.ts", stack: expect.stringContaining("7-errors.test.ts") },
  });
});

test("[7] a failure that all requests share is logged once in ten seconds", async () => {
  const full = Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
  const crash = spyOn(server.services.projects, "presentToKey").mockImplementation(() => {
    throw full;
  });
  const logged = () => server.logLines.filter((line) => line.includes("disk is full")).length;
  for (let n = 0; n < 5; n++) expect((await server.call("GET", "/v1/project", { key })).status).toBe(507);
  expect(logged()).toBe(1);
  server.clock.advance(10_000);
  expect((await server.call("GET", "/v1/project", { key })).status).toBe(507);
  expect(logged()).toBe(2);
  crash.mockRestore();
});

test("[7] a unit of work that fails is a 500 and is rolled back", async () => {
  const { services, runtime } = server;
  const crash = spyOn(services.members, "join").mockImplementation(() => {
    throw new Error("no");
  });
  const count = () => runtime.db.$client.query<{ n: number }, []>("SELECT count(*) AS n FROM projects").get()?.n;
  const before = count();
  const { status, body } = await post('{"name":"undone"}');
  crash.mockRestore();
  expect([status, body.code]).toEqual([500, "SVC_INTERNAL_ERROR"]);
  expect(count()).toBe(before);
});

test("[7] a body that is not JSON is 400 with that reason", async () => {
  for (const raw of ["{", '{"name":}', "name=x", "\u0000", '{"name":"x"', "undefined"]) {
    const { status, body } = await post(raw);
    expect([raw, status, body.code]).toEqual([raw, 400, "SVC_VALIDATION_FAILED"]);
    expect(body.message).toBe("The body is not valid JSON.");
  }
});

test("[7] JSON that is not an object is 400", async () => {
  for (const raw of ["[]", '"text"', "1", "null", "true"]) {
    const { status, body } = await post(raw);
    expect([raw, status, body.code]).toEqual([raw, 400, "SVC_VALIDATION_FAILED"]);
  }
});

test("[7] another content type is 415; parameters and +json types are JSON", async () => {
  const statusOf = async (type: string) => (await post('{"name":"x"}', { "content-type": type })).status;
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"]) {
    expect([type, await statusOf(type)]).toEqual([type, 415]);
  }
  for (const type of [
    "application/json",
    "application/json; charset=utf-8",
    "Application/JSON",
    "application/merge+json",
  ]) {
    expect([type, await statusOf(type)]).toEqual([type, 201]);
  }
});

test("[7] a body of 1 MiB is accepted, one byte more is 413, with and without content-length", async () => {
  for (const announce of [true, false]) {
    const send = async (bytes: number) => {
      const raw = bodyOf(bytes);
      const reply = await post(raw, announce ? { "content-length": String(raw.length) } : {});
      return [reply.status, reply.body.code];
    };
    expect(await send(MIB)).toEqual([201, undefined]);
    expect(await send(MIB + 1)).toEqual([413, "SVC_PAYLOAD_TOO_LARGE"]);
  }
});

test("[7] unknown fields are ignored and cannot set other properties", async () => {
  const raw = '{"name":"x","role":"VIEWER","status":"ARCHIVED"}';
  const { status, body } = await post(raw);
  expect(status).toBe(201);
  expect(body).toMatchObject({ role: "OWNER", status: "ACTIVE" });
  await post('{"name":"x","__proto__":{"admin":true}}');
  expect(({} as Record<string, unknown>).admin).toBeUndefined();
});

test("[2] no secret reaches the log, the audit log, an error or the database", async () => {
  const password = "pa55word-that-is-secret";
  const register = await server.call("POST", "/v1/auth/register", { body: { email: "s@example.com", password } });
  const accessToken = String(register.body.accessToken);
  const refreshToken = /stoa_refresh=([^;]+)/.exec(register.headers.get("set-cookie") ?? "")?.[1] ?? "";
  const { body: project } = await server.call("POST", "/v1/projects", { key: accessToken, body: { name: "p" } });
  const path = `/v1/projects/${project.id}`;
  const { body: apiKey } = await server.call("POST", `${path}/api-keys`, { key: accessToken, body: { name: "k" } });
  const secretHalf = String(apiKey.key).split(".")[1] ?? "";
  const headers = { cookie: `stoa_refresh=${refreshToken}` };

  const replies = [
    await server.call("GET", "/v1/project", { key: `${apiKey.key}x` }),
    await server.call("GET", `/v1/project?token=${accessToken}&key=${secretHalf}`),
    await server.call("POST", "/v1/auth/login", { body: { email: "s@example.com", password: `${password}!` } }),
    await server.call("POST", "/v1/auth/register", { body: { email: 1, password } }),
    await server.call("GET", `${path}/audit-logs`, { key: accessToken }),
    await server.call("GET", `${path}/api-keys`, { key: accessToken }),
    await server.call("POST", "/v1/auth/logout", { headers }),
    await server.call("POST", "/v1/auth/refresh", { headers }),
  ];
  const { $client } = server.runtime.db;
  const tables = $client.query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  const dump = tables.map(({ name }) => JSON.stringify($client.query(`SELECT * FROM ${name}`).all())).join();
  const places = { log: server.logLines.join(""), replies: replies.map(({ text }) => text).join(""), dump };
  expect(places.log.length).toBeGreaterThan(1000);
  for (const [place, text] of Object.entries(places)) {
    for (const secret of [password, accessToken, refreshToken, secretHalf]) {
      expect(secret.length).toBeGreaterThan(20);
      expect([place, text.includes(secret)]).toEqual([place, false]);
    }
  }
});
