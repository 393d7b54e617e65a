import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runChatLoad } from "../../src/ops/load-test/chat-load.ts";
import { runMediaLoad } from "../../src/ops/load-test/media-load.ts";
import { PROGRAM } from "../cli/stoa.ts";
import { IdleClients } from "./idle-clients.ts";
import { prepareData, type Served, served } from "./served.ts";

const LIMIT = 1_024;
const work = mkdtempSync(join(tmpdir(), "stoa-descriptors-"));
const dataDir = join(work, "data");
let server: Served;

beforeAll(async () => {
  await prepareData(dataDir);
  server = await served(
    dataDir,
    ["--public-ip", "127.0.0.1", "--chat-connection-rate-limit", "1000"],
    ["prlimit", `--nofile=${LIMIT}`, ...PROGRAM],
  );
}, 60_000);

afterAll(async () => {
  await server.stop("SIGKILL");
  rmSync(work, { recursive: true, force: true });
});

async function metric(name: string): Promise<number> {
  const response = await fetch(`${server.url}/metrics`);
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(await response.text())?.[1] ?? Number.NaN);
}

test("idle connections beyond the descriptor limit disturb neither a call nor chat, and do not end the server", async () => {
  const target = { url: server.url, apiKey: server.key, durationSeconds: 8 };
  const begun = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  const onceSent = (line: string, { resolve }: PromiseWithResolvers<void>) => / s: /.test(line) && resolve();
  const mediaLoad = { ...target, rooms: 1, publishers: 1, subscribers: 2 };
  const media = runMediaLoad(mediaLoad, (line) => onceSent(line, begun[0]));
  const chatLoad = { ...target, conversations: 2, senders: 1, readers: 24, rate: 2 };
  const chat = runChatLoad(chatLoad, (line) => onceSent(line, begun[1]));
  await Promise.all(begun.map(({ promise }) => promise));
  const idle = new IdleClients(Number(new URL(server.url).port), 1_300);
  const [call, messages] = await Promise.all([media, chat]);

  expect(await metric("stoa_descriptors_allowed")).toBe(LIMIT);
  expect(await metric("stoa_connections_refused_total")).toBeGreaterThan(0);
  expect(await metric("stoa_connections_silent_total")).toBeGreaterThan(0);
  const ready = await fetch(`${server.url}/readyz`);
  expect(ready.status).toBe(503);
  expect(((await ready.json()) as { reasons: object }).reasons).toEqual({
    descriptors: "new connections are refused: 768 of 1024 file descriptors are in use",
  });
  await idle.stop();

  expect(call).toMatchObject({ joined: 3, refused: {} });
  expect(call.lossPercent).toBeLessThan(0.5);
  expect(messages).toMatchObject({ joined: 50, refused: {} });
  expect(messages).toMatchObject({ lost: 0, notAcknowledged: {}, deliveries: messages.deliveriesExpected });
  expect(server.child.exitCode).toBeNull();
}, 60_000);

test("the soft limit keeps a quarter for files, the database and threads", () => {
  const limits = readFileSync(`/proc/${server.child.pid}/limits`, "utf8");
  expect(limits).toMatch(/^Max open files +(768|1024) +1024/m);
});

test("a refused client is answered with 503 and told to try again", async () => {
  const idle = new IdleClients(Number(new URL(server.url).port), 1_300);
  let refused: Response | null = null;
  while (refused === null) {
    const response = await fetch(`${server.url}/healthz`, { keepalive: false, headers: { connection: "close" } }).catch(
      () => null,
    );
    if (response?.status === 503) refused = response;
  }
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(await refused.json()).toMatchObject({ code: "SVC_OVERLOADED" });
  await idle.stop();
  while ((await fetch(`${server.url}/healthz`).catch(() => null))?.status !== 200);
}, 60_000);
