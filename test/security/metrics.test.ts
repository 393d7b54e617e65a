import { afterAll, expect, test } from "bun:test";
import { testServer } from "../harness/server.ts";

const server = testServer();
const guarded = testServer({ METRICS_TOKEN: "a token of the operator" });
afterAll(async () => {
  await server.close();
  await guarded.close();
});

test.each([
  [undefined, 200],
  ["127.0.0.1", 200],
  ["::1", 200],
  ["203.0.113.9", 403],
  // Addresses that a client claims before the proxy adds the real one.
  ["127.0.0.1, 203.0.113.9", 403],
  ["", 403],
])(
  "[10] /metrics is for this machine only, even behind a proxy on it that is not configured: %p",
  async (forwarded, status) => {
    const headers: Record<string, string> = forwarded === undefined ? {} : { "x-forwarded-for": forwarded };
    expect((await server.call("GET", "/metrics", { headers })).status).toBe(status);
  },
);

test("[10] with METRICS_TOKEN, only requests with that token get metrics", async () => {
  const ask = (key?: string) => guarded.call("GET", "/metrics", { key });
  expect((await ask()).status).toBe(401);
  expect((await ask("a token of the operatoR")).status).toBe(401);
  expect((await ask("a token of the operator")).status).toBe(200);
});
