import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attempt } from "../../../src/features/webhooks/attempt.ts";
import { targetRule } from "../../../src/features/webhooks/url-check.ts";
import { createLog } from "../../../src/kernel/log.ts";
import { systemTimers } from "../../../src/kernel/time/timers.ts";
import { makeCertificate } from "../../ops/certificate.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-resolved-"));
let arrived: string[] = [];
let certificate: string;
let port: number;
let server: Bun.Server<undefined>;

beforeAll(async () => {
  const { cert, key } = await makeCertificate(folder, "localhost");
  certificate = readFileSync(cert, "utf8");
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    tls: { cert: certificate, key: readFileSync(key, "utf8") },
    fetch(request) {
      arrived.push(request.headers.get("host") ?? "");
      return new Response();
    },
  });
  port = server.port ?? 0;
});
afterAll(async () => {
  await server.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

const PUBLIC_ONLY = targetRule("PRODUCTION", false, false);
const ANYWHERE = targetRule("DEVELOPMENT", true, true);

type Options = { addresses: string[] | Error; allows?: typeof PUBLIC_ONLY; fetch?: unknown; timeoutMs?: number };

/** One attempt at a host that resolves to these addresses. */
async function post(url: string, { addresses, allows = PUBLIC_ONLY, fetch: send, timeoutMs = 5_000 }: Options) {
  arrived = [];
  // The test's authority signed the certificate.
  const trusting = (target: URL, init: RequestInit & { tls?: object }) =>
    fetch(target, { ...init, tls: { ...init.tls, ca: certificate } } as never);
  const runtime = {
    now: Date.now,
    timers: systemTimers,
    log: createLog({ level: "silent", format: "json" }),
    fetch: (send ?? trusting) as typeof fetch,
    lookup: async () => {
      if (addresses instanceof Error) throw addresses;
      return addresses;
    },
  };
  return attempt(runtime, { url, allows, headers: {}, body: "{}", timeoutMs, controller: new AbortController() });
}

test("a host name that resolves to a forbidden address is not connected to", async () => {
  const dialled: string[] = [];
  const answering = async (url: URL) => {
    dialled.push(url.hostname);
    return new Response();
  };
  const inside = ["127.0.0.1", "10.0.0.5", "192.168.1.1", "169.254.169.254", "100.64.0.1", "::1", "fd00::1", "fe80::1"];
  for (const address of [...inside, "::ffff:10.0.0.5", "0.0.0.0"]) {
    const outcome = await post("https://hooks.example.com/", { addresses: [address], fetch: answering });
    expect([address, outcome]).toMatchObject([address, { kind: "unreachable", error: "no HTTP response" }]);
  }
  expect(dialled).toEqual([]);
  await post("https://hooks.example.com/", { addresses: ["10.0.0.5", "2606:4700::1", "9.9.9.9"], fetch: answering });
  expect(dialled).toEqual(["9.9.9.9"]);
});

test("the checked address is connected to with the name of the URL, in the Host header and the certificate", async () => {
  const addresses = ["127.0.0.1"];
  const url = `https://localhost:${port}/in`;
  expect(await post(url, { addresses, allows: ANYWHERE })).toMatchObject({ kind: "answered", statusCode: 200 });
  expect(arrived).toEqual([`localhost:${port}`]);
  const other = await post(`https://other.example.com:${port}/in`, { addresses, allows: ANYWHERE });
  expect(other).toMatchObject({ kind: "unreachable" });
  expect(arrived).toEqual([]);
});

test("another address of the host is tried when the first refuses the connection", async () => {
  const addresses = ["127.0.0.9", "127.0.0.1"];
  const outcome = await post(`https://localhost:${port}/`, { addresses, allows: ANYWHERE });
  expect(outcome).toMatchObject({ kind: "answered", statusCode: 200 });
});

test("refused, silent, unknown and forbidden hosts have the same error", async () => {
  const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const closed = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  closed.stop(true);
  const unknown = Object.assign(new Error("unknown"), { code: "ENOTFOUND" });
  const errors = await Promise.all([
    post(`https://a.example.com:${closed.port}/`, { addresses: ["127.0.0.1"], allows: ANYWHERE }),
    post(`https://a.example.com:${silent.port}/`, { addresses: ["127.0.0.1"], allows: ANYWHERE, timeoutMs: 100 }),
    post("https://a.example.com/", { addresses: unknown }),
    post("https://a.example.com/", { addresses: ["10.0.0.1"] }),
    post("https://10.0.0.1/", { addresses: [] }),
  ]);
  silent.stop(true);
  for (const error of errors) expect(error).toMatchObject({ kind: "unreachable", error: "no HTTP response" });
});

test("an attempt whose host name never resolves ends at the timeout", async () => {
  const runtime = {
    now: Date.now,
    timers: systemTimers,
    log: createLog({ level: "silent", format: "json" }),
    fetch,
    lookup: () => new Promise<string[]>(() => {}),
  };
  const request = { url: "https://a.example.com/", allows: PUBLIC_ONLY, headers: {}, body: "{}", timeoutMs: 50 };
  const outcome = await attempt(runtime, { ...request, controller: new AbortController() });
  expect(outcome).toMatchObject({ kind: "unreachable", error: "no HTTP response" });
});
