import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningServer, start } from "../../src/server.ts";
import { stoa } from "../cli/stoa.ts";
import { ChatClient } from "../features/chat/client.ts";
import { createTestAccounts } from "../harness/accounts.ts";
import { type FakeClock, fakeClock } from "../harness/clock.ts";
import { testConfig } from "../harness/test-config.ts";
import { type CertificateFiles, makeCertificate, presentedName } from "./certificate.ts";

const LOOK_EVERY_MS = 10_000;
const TRUST = { tls: { rejectUnauthorized: false } } as const;

const folder = mkdtempSync(join(tmpdir(), "stoa-tls-"));
/** Like certbot, it makes the configured names links to the files of the latest renewal. */
const live = { cert: join(folder, "fullchain.pem"), key: join(folder, "privkey.pem") };
let first: CertificateFiles;
let second: CertificateFiles;
let clock: FakeClock;
let server: RunningServer;
let key: string;
const lines: string[] = [];

beforeAll(async () => {
  [first, second] = await Promise.all([makeCertificate(folder, "first"), makeCertificate(folder, "second")]);
  symlinkSync(first.cert, live.cert);
  symlinkSync(first.key, live.key);
  clock = fakeClock();
  const config = testConfig({ DATA_DIR: join(folder, "data"), TLS_CERT: live.cert, TLS_KEY: live.key });
  server = await start({ ...config, LOG_LEVEL: "info" }, { timers: clock, logWrite: (line) => lines.push(line) });
  ({ key } = await createTestAccounts(server.runtime, server.services).project());
});

afterAll(async () => {
  await server.stop("test", 2_000);
  rmSync(folder, { recursive: true, force: true });
});

async function post(path: string, body: object): Promise<Record<string, string>> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(`${server.url}${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    ...TRUST,
  });
  expect(response.status).toBe(201);
  return (await response.json()) as Record<string, string>;
}

async function member(userId: string, conversationId: string): Promise<ChatClient> {
  const { token = "" } = await post("/v1/chat/tokens", { userId });
  const client = await ChatClient.open(server.url, token, TRUST as never);
  await client.ask("room.join", { room: conversationId });
  return client;
}

function link(name: keyof CertificateFiles, to: CertificateFiles): void {
  unlinkSync(live[name]);
  symlinkSync(to[name], live[name]);
}

test("[11] new connections get renewed certificates, and open sockets stay open", async () => {
  const members = [{ userId: "alice" }, { userId: "bob" }];
  const { id: conversationId = "" } = await post("/v1/chat/conversations", { name: "tls", members });
  const alice = await member("alice", conversationId);
  expect(await presentedName(server.url)).toBe("first");

  link("cert", second);
  clock.advance(LOOK_EVERY_MS);
  expect(lines.join("")).toContain("is not the key of");
  expect(await presentedName(server.url)).toBe("first");

  link("key", second);
  clock.advance(LOOK_EVERY_MS);
  expect(await presentedName(server.url)).toBe("second");
  expect(alice.closeCode).toBeNull();

  const bob = await member("bob", conversationId);
  await alice.ask("message.send", { room: conversationId, text: "from the old", clientMessageId: "1" });
  await bob.ask("message.send", { room: conversationId, text: "from the new", clientMessageId: "2" });
  for (const client of [alice, bob]) {
    await client.until(() => client.ofType("message").length === 2);
    const texts = client.ofType("message").map(({ message }) => (message as { text: string }).text);
    expect(texts).toEqual(["from the old", "from the new"]);
  }
  expect(lines.join("")).not.toContain("PRIVATE KEY");
});

test("[11] invalid certificate files do not replace valid ones, and a start with them fails with the reason", async () => {
  const broken = join(folder, "broken.pem");
  writeFileSync(broken, "-----BEGIN CERTIFICATE-----\nnot one\n");
  unlinkSync(live.cert);
  copyFileSync(broken, live.cert);
  clock.advance(LOOK_EVERY_MS);
  expect(await presentedName(server.url)).toBe("second");

  const started = await stoa(["serve", "--port", "0", "--tls-cert", broken, "--tls-key", second.key], { cwd: folder });
  expect([started.code, started.err.includes("    at ")]).toEqual([2, false]);
  expect(started.err).toContain("broken.pem is not valid PEM");
});

test("[11] the drain reaches the sockets of both certificates", async () => {
  const { id: conversationId = "" } = await post("/v1/chat/conversations", {
    name: "drain",
    members: [{ userId: "carol" }],
  });
  const before = await member("carol", conversationId);
  copyFileSync(first.cert, live.cert);
  link("key", first);
  clock.advance(LOOK_EVERY_MS);
  const after = await member("carol", conversationId);
  expect(await presentedName(server.url)).toBe("first");
  let stopped = false;
  // The clock never reaches the end of this grace period, at which sockets are closed without a message.
  void server.stop("test", 3_600_000).then(() => {
    stopped = true;
  });
  // The drain spreads the closes over time, and the test advances the clock.
  while (!stopped) {
    clock.advance(10);
    await Bun.sleep(1);
  }
  await Promise.all([before, after].map((client) => client.until(() => client.closeCode !== null)));
  expect([before.closeCode, after.closeCode]).toEqual([4500, 4500]);
});
