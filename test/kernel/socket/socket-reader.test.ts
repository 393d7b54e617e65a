import { expect, test } from "bun:test";
import { createFrameQueue, SocketReader } from "../../../src/kernel/socket/socket-reader.ts";

const nextTick = () => new Promise<void>((done) => setImmediate(done));

/** Sockets whose frames are logged when they are received; each frame takes a millisecond of a clock that only they move. */
function createWorld() {
  const received: string[] = [];
  let now = 0;
  const queue = createFrameQueue({ clock: () => now });
  const socket = (name: string, framesPerWindow?: number) => {
    let overflows = 0;
    const receive = (text: string) => {
      received.push(name + text);
      now += 1;
    };
    const reader = new SocketReader<{ length: number; text: string }>(queue, {
      receive: ({ text }) => receive(text),
      copy: (frame) => frame,
      framesPerWindow: () => framesPerWindow,
      overflowed() {
        overflows++;
        if (framesPerWindow !== undefined) reader.clear();
      },
    });
    return {
      push: (n: number | string, bytes = 10) => reader.push({ length: bytes, text: `${n}` }),
      end: () => reader.end(() => receive("end")),
      clear: () => reader.clear(),
      overflows: () => overflows,
    };
  };
  return { received, socket };
}

test("[4] a flood is received a few frames per tick, in its order, and other sockets between them", async () => {
  const { received, socket } = createWorld();
  const mallory = socket("m");
  const ann = socket("a");
  for (let n = 0; n < 100; n++) mallory.push(n);
  expect(received.length).toBe(8);
  ann.push(0);
  expect(received.at(-1)).toBe("a0");
  let ticks = 0;
  for (; received.length < 101; ticks++) {
    const before = received.length;
    await nextTick();
    // A slice of three milliseconds, and the frames of the burst that it ends with.
    expect(received.length - before).toBeLessThanOrEqual(11);
    ann.push(ticks + 1);
    expect(received.at(-1)).toBe(`a${ticks + 1}`);
    received.pop();
  }
  expect(ticks).toBeGreaterThan(5);
  expect(received.filter((frame) => frame.startsWith("m"))).toEqual(Array.from({ length: 100 }, (_, n) => `m${n}`));
});

test("[4] a flood of large frames is received one per tick at first, and none after the slice", async () => {
  const { received, socket } = createWorld();
  const mallory = socket("m");
  for (let n = 0; n < 15; n++) mallory.push(n, 64 * 1024);
  expect(received.length).toBe(2);
  for (let before = 2; before < 15; before = received.length) {
    await nextTick();
    expect(received.length - before).toBeLessThanOrEqual(3);
  }
  expect(received).toEqual(Array.from({ length: 15 }, (_, n) => `m${n}`));
});

test("[4] large frames of many sockets that arrive together share one slice of the tick, and small ones do not wait", async () => {
  const { received, socket } = createWorld();
  const senders = Array.from({ length: 20 }, (_, n) => socket(`m${n} `));
  const ann = socket("a");
  for (const one of senders) one.push("large", 128 * 1024);
  expect(received).toHaveLength(3);
  ann.push(0);
  expect(received.at(-1)).toBe("a0");
  for (let before = 4; before < 21; before = received.length) {
    await nextTick();
    expect(received.length - before).toBeLessThanOrEqual(3);
    expect(received.length).toBeGreaterThan(before);
  }
});

test("[4] many sockets that send floods are all served", async () => {
  const { received, socket } = createWorld();
  const many = Array.from({ length: 5 }, (_, n) => socket(`${n}:`));
  for (const one of many) for (let n = 0; n < 40; n++) one.push(n);
  const served = new Set<string>();
  received.length = 0;
  for (let tick = 0; tick < 5; tick++) {
    await nextTick();
    for (const frame of received) served.add(frame.split(":")[0] ?? "");
  }
  expect(served.size).toBe(5);
});

test("[4] the end of a socket comes after all of its frames", async () => {
  const { received, socket } = createWorld();
  const ann = socket("a");
  for (let n = 0; n < 20; n++) ann.push(n);
  ann.end();
  expect(received).not.toContain("aend");
  while (received.length < 21) await nextTick();
  expect(received.at(-1)).toBe("aend");
  const silent = socket("s");
  silent.end();
  expect(received.at(-1)).toBe("send");
});

test("[4] waiting frames are bounded in bytes: beyond that the handler is notified and frames are received at once", () => {
  const { received, socket } = createWorld();
  const mallory = socket("m");
  for (let n = 0; n < 300; n++) mallory.push(n, 64 * 1024);
  expect(mallory.overflows()).toBeGreaterThan(0);
  expect(300 - received.length).toBeLessThanOrEqual(16);
});

test("[4] a frame of any size may wait alone, and the next one overflows the socket", () => {
  const { received, socket } = createWorld();
  const ann = socket("a", 600);
  for (let n = 0; n < 3; n++) ann.push(n);
  ann.push("large", 2 * 1024 * 1024);
  expect(received).toEqual(["a0", "a1", "a2"]);
  expect(ann.overflows()).toBe(0);
  ann.push("next");
  expect(ann.overflows()).toBe(1);
});

test("[17] a thousand frames over the budget of a window wait to be refused, and one more overflows the socket", () => {
  const { received, socket } = createWorld();
  const mallory = socket("m", 600);
  for (let n = 0; n < 8 + 1_600; n++) mallory.push(n);
  expect(mallory.overflows()).toBe(0);
  mallory.push("once more");
  expect(mallory.overflows()).toBe(1);
  const uncounted = socket("u");
  for (let n = 0; n < 3_000; n++) uncounted.push(n);
  expect(uncounted.overflows()).toBe(0);
  expect(received.filter((frame) => frame.startsWith("m"))).toHaveLength(8);
});

test("[17] frames that were cleared are never received, and the end of the socket follows at once", async () => {
  const { received, socket } = createWorld();
  const mallory = socket("m");
  for (let n = 0; n < 100; n++) mallory.push(n);
  mallory.end();
  mallory.clear();
  expect(received).toHaveLength(9);
  expect(received.at(-1)).toBe("mend");
  for (let tick = 0; tick < 3; tick++) await nextTick();
  expect(received).toHaveLength(9);
  mallory.push("again");
  expect(received.at(-1)).toBe("magain");
});
