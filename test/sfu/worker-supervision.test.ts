import { afterEach, expect, mock, spyOn, test } from "bun:test";
import { MediaWorker } from "../../src/nodes/media-worker.ts";
import type { FromWorker, ToWorker } from "../../src/sfu/worker-protocol.ts";
import { type FakeClock, fakeClock } from "../harness/clock.ts";

/** A fake thread, whose messages alone are real: a test ends it. */
class Thread extends EventTarget {
  static all: Thread[] = [];
  onmessage: ((event: { data: FromWorker }) => void) | null = null;
  vitals: Int32Array = new Int32Array(2);
  isTerminated = false;
  /** The types of the messages that it was sent. */
  readonly received: string[] = [];

  constructor() {
    super();
    Thread.all.push(this);
  }

  postMessage(message: ToWorker): void {
    this.received.push(message.type);
    if (message.type === "call") this.onmessage?.({ data: { type: "answer", id: message.id, response: null } });
    if (message.type === "close") this.onmessage?.({ data: { type: "closed" } });
    if (message.type !== "start") return;
    this.vitals = message.vitals;
    this.onmessage?.({ data: { type: "started", port: 7001 } as FromWorker });
  }

  terminate(): void {
    this.isTerminated = true;
  }

  end(): void {
    this.dispatchEvent(new Event("close"));
  }
}

const { Worker } = globalThis;
afterEach(() => {
  globalThis.Worker = Worker;
  Thread.all = [];
  mock.restore();
});

/** A worker that listens, and `look`, which has its supervisor look at it once. */
async function supervised() {
  globalThis.Worker = Thread as unknown as typeof globalThis.Worker;
  const looks: (() => void)[] = [];
  spyOn(globalThis, "setInterval").mockImplementation(((look: () => void) => {
    looks.push(look);
    return { unref() {} };
  }) as unknown as typeof setInterval);
  const errors: string[] = [];
  const log = { info() {}, error: (_: object, message: string) => void errors.push(message) };
  const clock = fakeClock();
  const worker = new MediaWorker(0, { onEvent() {}, onRelay() {}, onCrash() {}, log }, clock);
  await worker.start({ port: 0 } as Parameters<MediaWorker["start"]>[0]);
  const look = (times = 1) => {
    for (let n = 0; n < times; n++) looks.at(-1)?.();
  };
  return { worker, look, errors, clock, thread: Thread.all[0] as Thread };
}

/** All that is due has run. */
const turns = async (clock: FakeClock) => {
  for (let n = 0; n < 5; n++) {
    await Bun.sleep(0);
    clock.advance(0);
  }
};

test("[17] the successor of a worker that hangs starts when its thread has ended and its port is free", async () => {
  const { look, thread, errors, clock } = await supervised();
  Atomics.add(thread.vitals, 0, 1);
  look(7);
  expect(errors).toEqual(["media worker: not responding"]);
  expect(thread.isTerminated).toBe(true);
  await turns(clock);
  expect(Thread.all).toHaveLength(1);
  thread.end();
  await turns(clock);
  expect(Thread.all).toHaveLength(2);
  expect(errors).toHaveLength(1);
});

test("while no thread can be started, attempts become fewer, and end when the worker is closed", async () => {
  const { worker, thread, errors, clock } = await supervised();
  let attempts = 0;
  globalThis.Worker = class {
    constructor() {
      attempts++;
      throw new Error("no free file descriptors for a thread");
    }
  } as unknown as typeof globalThis.Worker;
  thread.end();
  await turns(clock);
  expect(attempts).toBe(1);
  clock.advance(3_750);
  expect(attempts).toBe(5);
  clock.advance(60_000);
  expect(attempts).toBe(13);
  expect(errors).toEqual(["media worker: cannot start a new worker, retrying"]);
  await worker.close();
  clock.advance(60_000);
  expect(attempts).toBe(13);
});

test("[17] a worker that is still starting has more time to respond than one that was running", async () => {
  const { look, thread, errors } = await supervised();
  look(20);
  expect(errors).toEqual([]);
  Atomics.add(thread.vitals, 0, 1);
  look(5);
  Atomics.add(thread.vitals, 0, 1);
  look(5);
  expect(errors).toEqual([]);
  look(2);
  expect(errors).toEqual(["media worker: not responding"]);
  thread.end();
});

test("[17] a worker that never finishes its start is replaced in the end", async () => {
  const { look, thread, errors } = await supervised();
  look(31);
  expect(errors).toEqual(["media worker: not responding"]);
  expect(thread.isTerminated).toBe(true);
  thread.end();
});

test("[17] a worker collects garbage when it is idle after many requests; those without a change do not count", async () => {
  const { worker, clock, thread } = await supervised();
  const open = async (times: number) => {
    for (let n = 0; n < times; n++) await worker.call("openRoom", { roomId: `${n}` });
  };
  const collections = () => thread.received.filter((type) => type === "collectGarbage").length;
  await open(299);
  for (let n = 0; n < 1_000; n++) await worker.call("rooms", undefined);
  clock.advance(60_000);
  expect(collections()).toBe(0);
  await open(1);
  await open(151);
  clock.advance(15_000);
  expect(collections()).toBe(0);
  await open(150);
  clock.advance(15_000);
  expect(collections()).toBe(1);
  // The worker collects once more after the server has given up clients that were cut off.
  clock.advance(59_000);
  expect(collections()).toBe(1);
  clock.advance(1_000);
  expect(collections()).toBe(2);
  clock.advance(600_000);
  expect(collections()).toBe(2);
  await open(300);
  clock.advance(15_000);
  expect(collections()).toBe(3);
  await open(300);
  await worker.close();
  clock.advance(60_000);
  expect(collections()).toBe(3);
});

test("[17] a media worker that collects garbage frees old objects of its heap", async () => {
  const worker = new Worker(new URL("./heap-worker.ts", import.meta.url).href);
  const { promise, resolve } = Promise.withResolvers<Record<"full" | "released" | "collected", number>>();
  worker.onmessage = ({ data }) => resolve(data);
  const MIB = 1_048_576;
  try {
    worker.postMessage(null);
    const { full, released, collected } = await promise;
    // The objects are old: a collection of new objects leaves them.
    expect(released).toBeGreaterThan(full - 4 * MIB);
    expect(collected).toBeLessThan(full - 15 * MIB);
  } finally {
    worker.terminate();
  }
});
