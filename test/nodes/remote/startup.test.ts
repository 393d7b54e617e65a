import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLog } from "../../../src/kernel/log.ts";
import { type NodeProcess, startNodeProcess } from "../../../src/nodes/node-process.ts";
import { PROGRAM, startStoa, stoa } from "../../cli/stoa.ts";
import { fakeClock } from "../../harness/clock.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { testConfig } from "../../harness/test-config.ts";
import { makeCertificate, presentedName } from "../../ops/certificate.ts";
import { until } from "./until.ts";

const SECRET = "a-secret-of-the-fleet";
const work = mkdtempSync(join(tmpdir(), "stoa-node-"));
const FREE = ["--port", "0", "--media-udp-port", "0", "--media-workers", "1", "--public-ip", "127.0.0.1"];
const env = { SFU_REGISTRATION_SECRET: SECRET };
const cleanup: (() => unknown)[] = [];
let server: RealServer;

beforeAll(async () => {
  server = await realServer({ SFU_REGISTRATION_SECRET: SECRET });
});
afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});
afterAll(async () => {
  await server.close();
  rmSync(work, { recursive: true, force: true });
});

const node = (name: string, ...args: string[]) => ["node", "--sfu-node-name", name, ...FREE, ...args];

async function spawned(args: string[], options: { env: Record<string, string> }) {
  const running = await startStoa([...PROGRAM, ...args], options);
  cleanup.push(async () => {
    running.child.kill("SIGKILL");
    await running.child.exited;
  });
  return running;
}

test("[11] stoa node with a wrong secret exits with the remedy and shows neither secret", async () => {
  const wrong = { SFU_REGISTRATION_SECRET: "another-secret-of-20" };
  const { code, err, out } = await stoa(node("n1", "--control-plane", server.url), { env: wrong });
  expect(code).toBe(1);
  expect(err).toContain(`${server.url}: the control plane rejects the secret`);
  expect(err).toContain("SFU_REGISTRATION_SECRET must be the server's");
  expect(err + out).not.toContain("another-secret-of-20");
  expect(err).not.toContain("    at ");
});

test("[11] stoa node without a server, a secret or an address it can be reached at is a usage error", async () => {
  const nowhere = await stoa(node("n1"), { env });
  expect([nowhere.code, nowhere.err.includes("--control-plane")]).toEqual([2, true]);
  const unarmed = await stoa(node("n1", "--control-plane", server.url));
  expect([unarmed.code, unarmed.err.includes("SFU_REGISTRATION_SECRET is not set")]).toEqual([2, true]);
  const hidden = await stoa(node("n1", "--control-plane", "http://192.0.2.1:7000"), { env });
  expect([hidden.code, hidden.err.includes("--host 0.0.0.0")]).toEqual([2, true]);
});

test("[11] the name of a running node is refused with an explanation", async () => {
  await spawned(node("twin", "--control-plane", server.url), { env });
  const { code, err } = await stoa(node("twin", "--control-plane", server.url), { env });
  expect(code).toBe(1);
  expect(err).toContain("another media node with this name is running");
  expect(err).toContain("--sfu-node-name");
}, 20_000);

test("[11] without a control plane the node reports it, keeps trying, and registers once it is there", async () => {
  const dataDir = join(work, "late");
  const first = await spawned(["serve", ...FREE, "--data-dir", dataDir], { env });
  const { port } = new URL(first.url);
  first.child.kill("SIGTERM");
  expect(await first.child.exited).toBe(0);

  const eager = ["--sfu-heartbeat-timeout-seconds", "1"];
  const { out } = await spawned(node("early", "--control-plane", first.url, ...eager), { env });
  expect(out).toContain("Not registered yet (connection refused); it keeps trying.");
  const url = /reaches this node at (\S+)/.exec(out)?.[1] ?? "";
  const waiting = await fetch(`${url}/readyz`);
  expect(waiting.status).toBe(503);
  expect(await waiting.json()).toMatchObject({ reasons: ["connection refused"] });

  const later = ["serve", "--media-udp-port", "0", "--media-workers", "1", "--data-dir", dataDir, "--port", port];
  await spawned(later, { env });
  await until(async () => (await fetch(`${url}/readyz`)).status === 200);
}, 30_000);

test("[11] new connections get a node's renewed certificate, and the control plane's socket stays", async () => {
  const [first, second] = await Promise.all([makeCertificate(work, "one"), makeCertificate(work, "two")]);
  const live = { cert: join(work, "live.pem"), key: join(work, "live.key") };
  const install = (files: typeof first) => {
    copyFileSync(files.cert, live.cert);
    copyFileSync(files.key, live.key);
  };
  install(first);
  const clock = fakeClock();
  const config = testConfig({ TLS_CERT: live.cert, TLS_KEY: live.key, SFU_NODE_NAME: "tls" });
  const running: NodeProcess = await startNodeProcess({
    config,
    controlPlane: server.url,
    secret: SECRET,
    reachableHost: "127.0.0.1",
    log: createLog({ level: "silent", format: "json" }),
    timers: clock,
  });
  cleanup.push(() => running.stop("test", 0));
  expect(running.internalUrl).toStartWith("https://");
  expect(await presentedName(running.internalUrl)).toBe("one");

  const options = { headers: { authorization: `Bearer ${SECRET}` }, tls: { rejectUnauthorized: false } };
  const socket = new WebSocket(`${running.internalUrl.replace(/^http/, "ws")}/v1/media`, options as never);
  cleanup.push(() => socket.close());
  const frames: { type: string }[] = [];
  socket.onmessage = ({ data }) => void frames.push(JSON.parse(String(data)));
  await until(() => frames.some(({ type }) => type === "welcome"));

  install(second);
  clock.advance(10_000);
  expect(await presentedName(running.internalUrl)).toBe("two");
  socket.send(JSON.stringify({ type: "ping" }));
  await until(() => frames.some(({ type }) => type === "pong"));
  expect(socket.readyState).toBe(WebSocket.OPEN);
}, 30_000);

test("[11] a server reaches a node over https with the configured certificate authority", async () => {
  const { cert, key } = await makeCertificate(work, "trusted");
  const dataDir = join(work, "trusting");
  const control = await spawned(["serve", ...FREE, "--data-dir", dataDir], {
    env: { ...env, NODE_EXTRA_CA_CERTS: cert },
  });
  const { out } = await spawned(node("secure", "--control-plane", control.url, "--tls-cert", cert, "--tls-key", key), {
    env,
  });
  const url = /reaches this node at (https:\S+)/.exec(out)?.[1] ?? "";
  await until(async () => (await fetch(`${url}/readyz`, { tls: { rejectUnauthorized: false } })).status === 200);
}, 30_000);

test("[11] a node registers with its own secret, is called with it, and is disconnected when it is revoked", async () => {
  const dataDir = join(work, "keyed");
  const control = await spawned(["serve", ...FREE, "--data-dir", dataDir], { env });
  const keys = (...args: string[]) => stoa(["node-keys", ...args, "--data-dir", dataDir]);
  const { publicId, secret } = JSON.parse((await keys("create", "keyed", "--json")).out);
  const other = await stoa(node("other", "--control-plane", control.url), { env: { SFU_REGISTRATION_SECRET: secret } });
  expect([other.code, other.err.includes("belongs to another media node")]).toEqual([1, true]);

  const own = { SFU_REGISTRATION_SECRET: secret };
  const { out } = await spawned(node("keyed", "--control-plane", control.url), { env: own });
  const url = /reaches this node at (\S+)/.exec(out)?.[1] ?? "";
  const ready = async () => (await fetch(`${url}/readyz`)).status;
  // Both ways: it is registered, and the server calls it with the same secret.
  await until(async () => (await ready()) === 200);
  expect((await keys("list")).out).toContain("keyed");
  expect((await keys("revoke", publicId)).out).toBe(`Revoked ${publicId}.\n`);
  await until(async () => (await ready()) === 503);
}, 90_000);
