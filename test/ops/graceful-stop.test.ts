import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Push } from "../../src/protocol/signaling.ts";
import { SignalingClient } from "../../src/rtc-client/signaling-client.ts";
import { stoa } from "../cli/stoa.ts";
import { ok, startReceiver } from "../features/webhooks/receiver.ts";
import { prepareData, type Served, served } from "./served.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-stop-"));
const receiver = startReceiver();
const PASSWORD = "a long password";
const DRAIN_MS = 30_000;
let dataDir: string;
let room: string;
const running: Served[] = [];

beforeAll(async () => {
  dataDir = join(work, "data");
  await prepareData(dataDir);
});
afterAll(() => {
  for (const { child } of running) child.kill("SIGKILL");
  receiver.close();
  rmSync(work, { recursive: true, force: true });
});

async function start(): Promise<Served> {
  const server = await served(dataDir, ["--media-workers", "1", "--public-ip", "127.0.0.1"]);
  running.push(server);
  return server;
}

/** The write-ahead log was checkpointed, so a copy of the database file alone is complete. */
const isCheckpointed = () => (statSync(join(dataDir, "stoa.db-wal"), { throwIfNoEntry: false })?.size ?? 0) === 0;

async function subscribe({ call }: Served): Promise<void> {
  const login = await call("POST", "/v1/auth/login", { email: "operator@example.com", password: PASSWORD });
  const { accessToken } = login.body;
  const { body } = await call("GET", "/v1/projects", undefined, accessToken);
  const [{ id }] = body.data ?? body;
  const endpoint = { url: receiver.url, events: ["message.created"], environment: "DEVELOPMENT" };
  const made = await call("POST", `/v1/projects/${id}/webhooks`, endpoint, accessToken);
  expect(made.status).toBe(201);
}

async function caller({ url, call }: Served, identity: string): Promise<{ client: SignalingClient; pushes: Push[] }> {
  const { body } = await call("POST", "/v1/rooms", { name: crypto.randomUUID() });
  const minted = await call("POST", `/v1/rooms/${body.id}/rtc-tokens`, { participantIdentity: identity });
  const pushes: Push[] = [];
  const client = new SignalingClient({ url, token: minted.body.token, onPush: (push) => void pushes.push(push) });
  await client.join();
  return { client, pushes };
}

test("[11] SIGTERM tells sockets to reconnect, finishes a running delivery and checkpoints the log within 30 s", async () => {
  const server = await start();
  await subscribe(server);
  room = await server.conversation("stopped", "alice");
  const { client: alice } = await server.member("alice", room);
  const { client: ada, pushes } = await caller(server, "ada");
  // The endpoint has the event and has not responded yet.
  const answer = Promise.withResolvers<Response>();
  receiver.reply = () => answer.promise;
  expect(await alice.ask("message.send", { room, text: "before", clientMessageId: "1" })).toMatchObject({
    type: "ack",
  });
  await receiver.arrived(1);
  expect(isCheckpointed()).toBe(false);

  const signalledAt = performance.now();
  const exited = server.stop("SIGTERM");
  await alice.closed();
  expect(alice.closeCode).toBe(4500);
  while (ada.closeCode === null) await Bun.sleep(20);
  expect(ada.closeCode).toBe(4500);
  // Media ends with this process, so there is nothing to resume.
  expect(pushes.at(-1)).toMatchObject({ type: "bye", reason: "restart", action: "rejoin" });
  // New connections are refused, and the process waits for the endpoint alone.
  while (await fetch(`${server.url}/healthz`).catch(() => null)) await Bun.sleep(20);
  expect(server.child.exitCode).toBeNull();
  receiver.reply = ok;
  answer.resolve(new Response("fine"));
  expect(await exited).toBe(0);
  expect(performance.now() - signalledAt).toBeLessThan(DRAIN_MS);
  expect(isCheckpointed()).toBe(true);
  expect(existsSync(join(dataDir, "stoa.db-shm"))).toBe(false);

  // The delivery was saved, so the next process does not send it again.
  const next = await start();
  expect(await next.texts(room, "alice")).toEqual(["before"]);
  const { client } = await next.member("alice", room);
  await client.ask("message.send", { room, text: "after", clientMessageId: "2" });
  const events = await receiver.arrived(2);
  expect(events.map(({ event }) => (event.data.message as { text: string }).text)).toEqual(["before", "after"]);
  expect(await next.stop()).toBe(0);
}, 60_000);

test("[11] a second signal ends the process at once; the next start makes the aborted delivery", async () => {
  const server = await start();
  const { client } = await server.member("alice", room);
  const before = receiver.received.length;
  receiver.reply = () => new Promise<Response>(() => {});
  await client.ask("message.send", { room, text: "forced", clientMessageId: "3" });
  await receiver.arrived(before + 1);
  server.child.kill("SIGTERM");
  await client.closed();
  while (await fetch(`${server.url}/healthz`).catch(() => null)) await Bun.sleep(20);
  server.child.kill("SIGTERM");
  expect(await server.child.exited).toBe(1);

  receiver.reply = ok;
  const next = await start();
  const events = await receiver.arrived(before + 2);
  expect(events.at(-1)?.event).toEqual(events.at(-2)?.event as never);
  expect(await next.stop()).toBe(0);
}, 60_000);

test("[11] a start after kill -9 needs no repair: no acknowledged data is lost, and the doctor finds nothing", async () => {
  const server = await start();
  const { client } = await server.member("alice", room);
  await Promise.all(
    Array.from({ length: 50 }, (_, n) =>
      client.ask("message.send", { room, text: `killed ${n}`, clientMessageId: `k${n}` }),
    ),
  );
  expect(await server.stop("SIGKILL")).not.toBe(0);
  expect(isCheckpointed()).toBe(false);
  const looked = await stoa(["doctor", "--json", "--data-dir", dataDir, "--port", "0", "--media-udp-port", "0"]);
  const checks = JSON.parse(looked.out) as { name: string; status: string }[];
  expect(checks.find(({ name }) => name === "database")?.status).toBe("pass");

  const next = await start();
  const texts = await next.texts(room, "alice");
  expect(texts.slice(-50)).toEqual(Array.from({ length: 50 }, (_, n) => `killed ${n}`));
  expect(await next.stop()).toBe(0);
  expect(isCheckpointed()).toBe(true);
}, 60_000);
