import { afterAll, expect, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);

const { key } = await server.project();

test("[1] every response has a request id of the specified form", async () => {
  for (const [method, path] of [
    ["GET", "/v1/project"],
    ["GET", "/v1/nothing-here"],
    ["PUT", "/v1/project"],
    ["GET", "/healthz"],
  ] as const) {
    const { headers } = await server.call(method, path);
    expect(headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{24}$/);
  }
});

test("[1] a caller's request id is adopted only when it is 1-64 characters of the alphabet", async () => {
  const sent = async (id: string) =>
    (await server.call("GET", "/healthz", { headers: { "x-request-id": id } })).headers.get("x-request-id");
  expect(await sent("a")).toBe("a");
  expect(await sent("A-z_0".padEnd(64, "x"))).toBe("A-z_0".padEnd(64, "x"));
  expect(await sent("x".repeat(65))).toMatch(/^req_/);
  expect(await sent("has space")).toMatch(/^req_/);
  expect(await sent("dot.")).toMatch(/^req_/);
});

test("[7] an error is an envelope with the request's id and its path without the query", async () => {
  const { status, body, headers } = await server.call("GET", "/v1/project?secret=1");
  expect(status).toBe(401);
  expect(body).toEqual({
    code: "SVC_AUTH_ERROR",
    legacyCode: "UNAUTHORIZED",
    message: expect.any(String),
    requestId: headers.get("x-request-id"),
    path: "/v1/project",
  });
  expect(headers.get("www-authenticate")).toBe("Bearer");
});

test("[7] an unknown route is 404, a known route with another method 405", async () => {
  expect((await server.call("GET", "/v1/nothing-here")).body.code).toBe("SVC_ROUTE_NOT_FOUND");
  const { status, body, headers } = await server.call("PUT", "/v1/project", { key });
  expect([status, body.code]).toEqual([405, "SVC_METHOD_NOT_ALLOWED"]);
  expect(headers.get("allow")).toBe("GET");
});

test("[4.6] a key reads its own project", async () => {
  const { status, body } = await server.call("GET", "/v1/project", { key });
  expect(status).toBe(200);
  expect(body).toMatchObject({ name: "test", environment: "DEVELOPMENT", allowedOrigins: [] });
  expect(body).not.toHaveProperty("role");
});
