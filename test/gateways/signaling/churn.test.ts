// suite: all
import { heapStats } from "bun:jsc";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { libcBytes } from "./libc-memory.ts";

const ROUNDS = 2_000;
const AT_ONCE = 20;
/** How much more may be held than a warm server had at most, or than before. */
const SLACK = 1.1;
/** Allocators keep pages for later, some more in one batch than in another. */
const RSS_SLACK = 1.3;
/** Native code holds so little that a part of it says nothing: a kilobyte for each who came. */
const LIBC_SLACK_MB = ROUNDS / 1_000;
const MOST_BATCHES = 8;

const scales = new BroadcastChannel("scales");

/** The worker of a server as it is shipped, but one that can be weighed. */
class WeighedWorker extends Worker {
  constructor(url: string | URL, options?: WorkerOptions) {
    const isMedia = String(url).endsWith("sfu/worker.ts");
    super(isMedia ? new URL("./weighed-worker.ts", import.meta.url) : url, options);
  }
}

let server: RealServer;
beforeAll(async () => {
  const { Worker } = globalThis;
  globalThis.Worker = WeighedWorker;
  server = await realServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1_000_000, RATE_LIMIT_RTC_TOKENS: 1_000_000 });
  globalThis.Worker = Worker;
  await preventWarmUp(server.media.ports);
}, 120_000);
afterAll(async () => {
  scales.close();
  await server?.close();
});

/** A warm-up among the joins would leave compiled code behind, and so more memory than before. */
async function preventWarmUp(ports: readonly number[]): Promise<void> {
  const socket = await Bun.udpSocket({});
  for (const port of ports) socket.send("a packet, so the worker has served a client", port, "127.0.0.1");
  socket.close();
}

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

type Weight = { objects: number; bytes: number };

async function weighWorker(): Promise<Weight> {
  const weight = new Promise<Weight>((resolve) => {
    scales.onmessage = ({ data }: MessageEvent) => resolve(data as Weight);
  });
  scales.postMessage("weigh");
  return weight;
}

/** What is held, by owner. The process's total memory says little, because allocators keep memory for later. */
type Footprint = {
  objects: number;
  heapMb: number;
  workerObjects: number;
  workerHeapMb: number;
  /** Outside the heaps, of all threads: by the allocator of the runtime, and by that of native code. */
  nativeMb: number;
  libcMb: number;
  descriptors: number;
  rssMb: number;
};
type Allocated = Record<"malloc_normal" | "malloc_huge", { current: number }>;
const inMb = (bytes: number) => Math.round(bytes / 10_000) / 100;

async function footprint(): Promise<Footprint> {
  const worker = await weighWorker();
  Bun.gc(true);
  const { objectCount, heapSize, extraMemorySize, mimalloc } = heapStats() as ReturnType<typeof heapStats> & {
    mimalloc: Allocated;
  };
  return {
    objects: objectCount,
    heapMb: inMb(heapSize + extraMemorySize),
    workerObjects: worker.objects,
    workerHeapMb: inMb(worker.bytes),
    nativeMb: inMb(mimalloc.malloc_normal.current + mimalloc.malloc_huge.current),
    libcMb: inMb(libcBytes()),
    descriptors: readdirSync("/proc/self/fd").length,
    rssMb: anonymousMb(),
  };
}

const FIELDS = ["objects", "heapMb", "workerObjects", "workerHeapMb", "nativeMb", "libcMb", "rssMb"] as const;

/** What has grown by more than chance explains. */
function grown(before: Footprint, after: Footprint): string[] {
  const bound = (field: (typeof FIELDS)[number]) =>
    field === "libcMb" ? before.libcMb + LIBC_SLACK_MB : before[field] * (field === "rssMb" ? RSS_SLACK : SLACK);
  return FIELDS.filter((field) => after[field] > bound(field)).map(
    (field) => `${field}: ${before[field]}, then ${after[field]}`,
  );
}

const mostOf = (footprints: readonly Footprint[]) => summed(footprints, (values) => Math.max(...values));
const leastOf = (footprints: readonly Footprint[]) => summed(footprints, (values) => Math.min(...values));

function summed(footprints: readonly Footprint[], one: (values: number[]) => number): Footprint {
  const fields = [...FIELDS, "descriptors"] as const;
  return Object.fromEntries(fields.map((field) => [field, one(footprints.map((each) => each[field]))])) as Footprint;
}

test(`[4] ${ROUNDS} joins and leaves: memory and descriptors are back`, async () => {
  const roomId = await server.room();
  const tokens = await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, i) => (await server.mint(roomId, `p${i}`)).token),
  );
  // Caches fill and code is compiled: the measure is what a warm server had at most.
  const warm: Footprint[] = [];
  for (let batch = 0; batch < 3; batch++) {
    await rounds(ROUNDS / 2, tokens);
    warm.push(await footprint());
  }
  const before = mostOf(warm);
  const batches: Footprint[] = [];
  do {
    await rounds(ROUNDS, tokens);
    batches.push(await footprint());
  } while (batches.length < MOST_BATCHES && grown(before, batches.at(-1) ?? before).length > 0);
  console.log(JSON.stringify({ warm, batches }));
  // Compiled code, caches and memory kept for later grow and stay, or peak; a leak also raises the minimum of each batch.
  const halves = [batches.slice(0, MOST_BATCHES / 2), batches.slice(MOST_BATCHES / 2)] as const;
  if (batches.length === MOST_BATCHES) expect(grown(leastOf(halves[0]), leastOf(halves[1]))).toEqual([]);
  expect((batches.at(-1) ?? before).descriptors).toBeLessThanOrEqual(before.descriptors + 5);
  expect(await server.media.node.load()).toMatchObject({ participants: 0 });
}, 240_000);
