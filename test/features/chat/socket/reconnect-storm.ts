import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ChatChild } from "../chat-child.ts";
import { ChatClient } from "../client.ts";
import type { Body } from "../world.ts";

type StormReport = {
  sockets: number;
  /** From the first reconnect to the last resumed. */
  stormMs: number;
  resumed: number;
  missedEvents: number;
  gaps: number;
  sendsDuring: number;
  sendAckMs: { p50: number; p99: number; max: number };
  presenceFrames: number;
  /** The server's CPU time for each reconnecting socket. */
  cpuMicrosPerReconnect: number;
};

const PER_ROOM = 100;
const CONNECTING_AT_ONCE = 100;
const SENDS_WHILE_AWAY = 3;

/** All sockets break and reconnect together, resuming, while one user continues to send. */
export async function reconnectStorm(sockets: number): Promise<StormReport> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-storm-"));
  const child = await ChatChild.start(dataDir);
  try {
    return await run(child, sockets);
  } finally {
    await child.kill();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function run(child: ChatChild, sockets: number): Promise<StormReport> {
  const rooms = Array.from({ length: Math.ceil(sockets / PER_ROOM) }, (_, i) => `storm-${i}`);
  const users = Array.from({ length: sockets }, (_, i) => ({ userId: `u${i}`, room: rooms[i % rooms.length] ?? "" }));
  for (const name of rooms) {
    const members = users.filter(({ room }) => room === name).map(({ userId }) => ({ userId }));
    await child.call("POST", "/v1/chat/conversations", { name, members: [...members, { userId: "sender" }] });
  }
  const tokens: string[] = [];
  await inGroups(users, async ({ userId }, i) => {
    tokens[i] = await child.token(userId);
  });

  const sender = await ChatClient.open(child.url, await child.token("sender"));
  const heard = new Set(rooms.slice(0, 20));
  for (const room of heard) await sender.ask("room.join", { room });
  const seqs: number[] = [];
  const clients: ChatClient[] = [];
  await inGroups(users, async ({ room }, i) => {
    const client = await ChatClient.open(child.url, tokens[i] ?? "");
    seqs[i] = Number((await client.ask("room.join", { room })).seq);
    clients[i] = client;
  });
  // Presence is sent in batches; only changes after these belong to the storm.
  const known = users.filter(({ room }) => heard.has(room)).length;
  const notified = () => new Set(sender.ofType("presence").map(({ userId }) => userId));
  await sender.until(() => sender.ofType("presence").length >= known && notified().size >= known);

  for (const client of clients) client.drop();
  for (const room of rooms) {
    for (let i = 0; i < SENDS_WHILE_AWAY; i += 1)
      await child.call("POST", `/v1/chat/conversations/${room}/messages`, { text: `${i}` });
  }

  const report = { resumed: 0, missedEvents: 0, gaps: 0 };
  const latencies: number[] = [];
  let storming = true;
  const sending = (async () => {
    while (storming) {
      const at = performance.now();
      await sender.ask("message.send", { room: rooms[latencies.length % Math.min(20, rooms.length)], text: "steady" });
      latencies.push(performance.now() - at);
      await Bun.sleep(20);
    }
  })();
  const presenceBefore = sender.ofType("presence").length;
  const { cpuMicros } = await child.usage();
  const start = performance.now();
  await inGroups(users, async ({ room }, i) => {
    const client = await ChatClient.open(child.url, tokens[i] ?? "");
    const since = seqs[i] ?? 0;
    const ack = await client.ask("room.join", { room, since });
    const events = (ack.events ?? []) as Body[];
    if (ack.recovered) report.resumed += 1;
    report.missedEvents += events.length;
    if (events.some(({ seq }, n) => seq !== since + 1 + n) || ack.seq !== since + events.length) report.gaps += 1;
    clients[i] = client;
  });
  const stormMs = performance.now() - start;
  const cpuMicrosPerReconnect = Math.round(((await child.usage()).cpuMicros - cpuMicros) / sockets);
  storming = false;
  await sending;
  const presenceFrames = sender.ofType("presence").length - presenceBefore;
  for (const client of clients) client.drop();
  sender.drop();

  const sorted = latencies.sort((a, b) => a - b);
  const at = (share: number) =>
    Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0) * 100) / 100;
  return {
    sockets,
    stormMs: Math.round(stormMs),
    ...report,
    sendsDuring: latencies.length,
    sendAckMs: { p50: at(0.5), p99: at(0.99), max: at(1) },
    presenceFrames,
    cpuMicrosPerReconnect,
  };
}

/** Limits concurrency to what a fleet of clients with a little jitter would have. */
async function inGroups<T>(items: T[], work: (item: T, index: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: CONNECTING_AT_ONCE }, async () => {
      for (let i = next++; i < items.length; i = next++) await work(items[i] as T, i);
    }),
  );
}
