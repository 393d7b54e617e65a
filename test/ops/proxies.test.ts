import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Check } from "../../src/ops/doctor/check.ts";
import { type RunningServer, start } from "../../src/server.ts";
import { stoa } from "../cli/stoa.ts";
import { ChatClient } from "../features/chat/client.ts";
import { createTestAccounts } from "../harness/accounts.ts";
import { testConfig } from "../harness/test-config.ts";
import { makeCertificate } from "./certificate.ts";
import { freePort, PROXIES } from "./proxies.ts";

const TRUST = { tls: { rejectUnauthorized: false } } as const;
const work = mkdtempSync(join(tmpdir(), "stoa-proxies-"));
afterAll(() => rmSync(work, { recursive: true, force: true }));

describe.each(["nginx", "caddy"] as const)("[11] behind the guide's %s", (name) => {
  const folder = join(work, name);
  let server: RunningServer;
  let proxy: Bun.Subprocess;
  let url: string;
  let key: string;
  let cert: string;

  beforeAll(async () => {
    mkdirSync(folder);
    const port = await freePort();
    url = `https://localhost:${port}`;
    const config = testConfig({ DATA_DIR: join(folder, "data"), PUBLIC_URL: url, TRUSTED_PROXIES: ["127.0.0.1"] });
    server = await start({ ...config, CHAT_CONNECTION_RATE_LIMIT: 1000 });
    ({ key } = await createTestAccounts(server.runtime, server.services).project());
    const files = await makeCertificate(folder, "proxy");
    cert = files.cert;
    proxy = await PROXIES[name]({ folder, port, backend: server.url, files });
    while (!(await fetch(`${url}/healthz`, TRUST).catch(() => null))?.ok) {
      if (proxy.exitCode !== null) throw new Error(`${name} ended with ${proxy.exitCode}`);
      await Bun.sleep(20);
    }
  }, 120_000);

  afterAll(async () => {
    proxy.kill();
    await proxy.exited;
    await server.stop("test", 2_000);
  });

  async function call(path: string, body: object): Promise<{ status: number; body: Record<string, string> }> {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body), ...TRUST });
    return { status: response.status, body: (await response.json()) as Record<string, string> };
  }

  async function doctor(...args: string[]): Promise<Check | undefined> {
    const options = ["--public-url", url, "--data-dir", join(folder, "data"), "--public-ip", "127.0.0.1", ...args];
    const { out } = await stoa(["doctor", "--json", ...options], { env: { NODE_EXTRA_CA_CERTS: cert } });
    const checks = JSON.parse(out) as Check[];
    expect(checks.find((check) => check.name === "websocket")?.status).toBe("pass");
    return checks.find((check) => check.name === "proxy-headers");
  }

  test("REST and the chat socket work", async () => {
    const made = await call("/v1/chat/conversations", { name: "proxied", members: [{ userId: "alice" }] });
    expect(made.status).toBe(201);
    const { body } = await call("/v1/chat/tokens", { userId: "alice" });
    const alice = await ChatClient.open(url, body.token ?? "", TRUST as never);
    const room = made.body.id;
    expect(await alice.ask("room.join", { room })).toMatchObject({ type: "ack" });
    expect(await alice.ask("message.send", { room, text: "hi", clientMessageId: "1" })).toMatchObject({ type: "ack" });
    await alice.close();
  });

  test("an attachment of 3 MB is uploaded at the public address", async () => {
    const made = await call("/v1/chat/conversations", { name: "files", members: [{ userId: "bob" }] });
    const file = { filename: "big.bin", mimeType: "application/octet-stream", size: 3_000_000 };
    const { body } = await call(`/v1/chat/conversations/${made.body.id}/attachments`, { ...file, uploaderId: "bob" });
    expect(body.uploadUrl).toStartWith(`${url}/v1/storage/`);
    const sent = await fetch(body.uploadUrl ?? "", {
      method: "PUT",
      headers: { "content-type": file.mimeType },
      body: new Uint8Array(file.size),
      ...TRUST,
    });
    expect(sent.status).toBe(200);
  });

  test("the doctor sees by a request of its own that the proxy is trusted and names the client", async () => {
    expect(await doctor("--trusted-proxies", "127.0.0.1")).toMatchObject({
      status: "pass",
      detail: expect.stringContaining("the proxy at 127.0.0.1 is trusted and names the client"),
    });
  }, 30_000);

  test("only a caller who can read the data learns how a request arrived", async () => {
    for (const headers of [{ authorization: "" }, { authorization: "Bearer a guess" }]) {
      expect((await fetch(`${url}/healthz/arrival`, { headers, ...TRUST })).status).toBe(404);
    }
  });
});

/** A proxy with configurable headers. */
async function odd(backend: string, headers: Record<string, string>): Promise<Bun.Server<undefined>> {
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) =>
      fetch(backend + new URL(request.url).pathname, { headers: { ...request.headers.toJSON(), ...headers } }),
  });
}

test("[11] the doctor reports a proxy that is not trusted and one that names the wrong scheme", async () => {
  const ask = async (trusted: string[], said: Record<string, string>): Promise<Check | undefined> => {
    const dataDir = mkdtempSync(join(work, "odd-"));
    const server = await start({ ...testConfig({ DATA_DIR: dataDir }), TRUSTED_PROXIES: trusted });
    const proxy = await odd(server.url, said);
    const url = proxy.url.origin;
    const trust = trusted.length === 0 ? [] : ["--trusted-proxies", trusted.join(",")];
    const { out } = await stoa(["doctor", "--json", "--public-url", url, "--data-dir", dataDir, ...trust]);
    await proxy.stop(true);
    await server.stop("test", 0);
    return (JSON.parse(out) as Check[]).find((check) => check.name === "proxy-headers");
  };
  const forwarded = { "x-forwarded-for": "203.0.113.9" };
  expect(await ask([], { ...forwarded, "x-forwarded-proto": "http" })).toMatchObject({
    status: "warn",
    detail: expect.stringContaining("the proxy at 127.0.0.1 is not trusted"),
    remedy: expect.stringContaining("add 127.0.0.1 to TRUSTED_PROXIES"),
  });
  expect(await ask(["127.0.0.1"], { ...forwarded, "x-forwarded-proto": "https" })).toMatchObject({
    status: "warn",
    detail: expect.stringContaining("says https, where clients speak http"),
  });
  expect(await ask(["127.0.0.1"], { ...forwarded, "x-forwarded-proto": "http" })).toMatchObject({
    status: "pass",
    detail: expect.stringContaining("this machine is 203.0.113.9"),
  });
  expect(await ask([], {})).toMatchObject({ status: "pass" });
}, 60_000);
