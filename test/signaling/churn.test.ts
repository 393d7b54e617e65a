import { heapStats } from "bun:jsc";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { type RealServer, realServer } from "../harness/running.ts";

const ROUNDS = 2_000;
const AT_ONCE = 20;

let server: RealServer;
beforeAll(async () => {
  server = await realServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1_000_000, RATE_LIMIT_RTC_TOKENS: 1_000_000 });
}, 30_000);
afterAll(() => server.close());

async function comeAndGo(token: string): Promise<void> {
  const socket = new WebSocket(`${server.url.replace("http", "ws")}/v1/rtc?token=${token}`);
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => socket.send(JSON.stringify({ type: "room.join", id: "1", connectionId: "c" }));
    socket.onmessage = ({ data }) => {
      const { type, id } = JSON.parse(String(data));
      if (type === "error") reject(new Error(String(data)));
      if (type === "ack" && id === "1") socket.send(JSON.stringify({ type: "room.leave", id: "2" }));
    };
    socket.onclose = () => resolve();
  });
}

/** Without the pages of mapped files: the database grows with its records, and is no leak. */
function anonymousMb(): number {
  const kilobytes = /RssAnon:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
  return Math.round(Number(kilobytes) / 1000);
}

async function rounds(count: number, tokens: string[]): Promise<void> {
  for (let done = 0; done < count; done += AT_ONCE) await Promise.all(tokens.map(comeAndGo));
}

type Footprint = { rssMb: number; objects: number; descriptors: number };

function footprint(): Footprint {
  Bun.gc(true);
  return {
    rssMb: anonymousMb(),
    objects: heapStats().objectCount,
    descriptors: readdirSync("/proc/self/fd").length,
  };
}

test(`[4] ${ROUNDS} joins and leaves: memory and descriptors are back`, async () => {
  const roomId = await server.room();
  const tokens = await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, i) => (await server.mint(roomId, `p${i}`)).token),
  );
  // The allocator gives memory back when it likes, so the measure is what a warm server had at most.
  const warm: Footprint[] = [];
  for (let batch = 0; batch < 3; batch++) {
    await rounds(ROUNDS / 2, tokens);
    warm.push(footprint());
  }
  const most = (field: keyof Footprint) => Math.max(...warm.map((one) => one[field]));
  const before: Footprint = { rssMb: most("rssMb"), objects: most("objects"), descriptors: most("descriptors") };
  let after = before;
  // A leak grows with every batch, noise does not.
  for (let batch = 0; batch === 0 || (batch < 8 && after.rssMb > before.rssMb * 1.1); batch++) {
    await rounds(ROUNDS, tokens);
    after = footprint();
  }
  console.log(`before ${JSON.stringify(before)}, after ${JSON.stringify(after)}`);
  expect(after.descriptors).toBeLessThanOrEqual(before.descriptors + 5);
  expect(after.objects).toBeLessThanOrEqual(before.objects * 1.1);
  expect(after.rssMb).toBeLessThanOrEqual(before.rssMb * 1.1);
  expect(await server.media.node.load()).toMatchObject({ participants: 0 });
}, 240_000);
