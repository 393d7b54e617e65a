import { afterAll, expect, test } from "bun:test";
import { rtcServer, settled } from "../../harness/rtc.ts";

const FRAMES = 10_000;
const server = await rtcServer({ SIGNALING_MAX_MESSAGES_PER_WINDOW: 1_000_000 });
afterAll(server.close);

/** mulberry32: the same frames in every run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const next = random(20_260_301);
const pick = <T>(values: readonly T[]): T => values[Math.floor(next() * values.length)] as T;

const GOOD = [
  { type: "room.join", id: "1", connectionId: "c", resume: { sessionId: "s", resumeToken: "t", lastSeq: 0 } },
  {
    type: "media.offer",
    id: "2",
    sdp: "v=0",
    publish: [{ mid: "0", clientTrackId: "a", kind: "audio", source: "other" }],
    subscribe: [],
  },
  { type: "subscription.update", id: "3", tracks: [{ trackId: "t", mid: null }] },
  { type: "track.mute", id: "4", trackId: "t", muted: true },
  { type: "track.unpublish", id: "5", trackId: "t" },
  { type: "data.send", id: "6", payload: "x", to: ["watcher"] },
  { type: "participant.update", id: "7", metadata: "m" },
  { type: "ping", id: "8" },
];
const ODD = [
  null,
  true,
  0,
  -1,
  1e308,
  "",
  "x".repeat(300),
  "\u0000",
  "__proto__",
  [],
  {},
  [[[[]]]],
  { a: { b: {} } },
  "😀",
  "\ud800",
];

function mutated(): string {
  const frame = structuredClone(pick(GOOD)) as Record<string, unknown>;
  for (let changes = 1 + Math.floor(next() * 3); changes > 0; changes--) {
    const field = pick([...Object.keys(frame), "type", "__proto__", "constructor", "length"]);
    if (next() < 0.2) delete frame[field];
    else
      Object.defineProperty(frame, field, { value: pick(ODD), enumerable: true, configurable: true, writable: true });
  }
  return JSON.stringify(frame);
}

function garbage(): string {
  const text = mutated();
  const at = Math.floor(next() * text.length);
  return pick([
    text.slice(0, at),
    text.slice(at),
    `${text.slice(0, at)}${pick(["{", "\\u", '"', "]", "\u0000"])}${text.slice(at)}`,
  ]);
}

test(`[signaling] ${FRAMES} mutated and random frames disturb no other client`, async () => {
  const roomId = await server.room();
  const watcher = await server.joined(roomId, "watcher");
  server.clock.advance(5_000);
  const { token } = await server.mint(roomId, "fuzz", { ttlSeconds: 21_600 });
  const closeCodes = new Set<number | undefined>();
  let sent = 0;
  let connections = 0;
  while (sent < FRAMES) {
    const client = server.connect(token);
    connections += 1;
    // Half of them attack from inside the room.
    if (next() < 0.5) await client.join();
    while (client.closed === null && sent < FRAMES) {
      client.raw(next() < 0.02 ? null : next() < 0.7 ? mutated() : garbage());
      sent += 1;
      if (next() < 0.01) await settled();
    }
    await settled();
    for (const frame of client.frames) expect(JSON.stringify(frame).length).toBeLessThan(4_096);
    closeCodes.add(client.closed?.code);
  }
  expect(connections).toBeGreaterThan(100);
  expect([...closeCodes].filter((code) => code !== undefined && code !== 4400 && code !== 4409)).toEqual([]);
  expect(server.logLines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  expect((await watcher.ask("ping")).type).toBe("pong");
  expect(watcher.closed).toBeNull();
  expect(watcher.frames.filter((frame) => frame.type === "error")).toEqual([]);
  const late = await server.joined(roomId, "late");
  expect((late.ack.participants as { identity: string }[]).map(({ identity }) => identity)).toContain("watcher");
}, 60_000);
