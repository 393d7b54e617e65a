import { heapStats } from "bun:jsc";
import { expect, test } from "bun:test";
import fc from "fast-check";
import { createReplayRing } from "../../../src/kernel/socket/replay-ring.ts";
import { type PushBody, RESUME_RING_FRAMES } from "../../../src/protocol/signaling.ts";

const body = (identity: string) =>
  JSON.stringify({ type: "participant.left", identity, reason: "left" } satisfies PushBody);

test("[signaling] pushes are numbered from 1 without a gap, and replayed as they were sent", () => {
  const ring = createReplayRing(RESUME_RING_FRAMES);
  expect(ring.seq).toBe(0);
  expect(JSON.parse(ring.add(body("a")))).toEqual({
    seq: 1,
    type: "participant.left",
    identity: "a",
    reason: "left",
  });
  expect(JSON.parse(ring.add(body("b"))).seq).toBe(2);
  expect(ring.seq).toBe(2);
});

test("[signaling] 256 pushes are kept; a client that missed more gets a snapshot", () => {
  const ring = createReplayRing(RESUME_RING_FRAMES);
  for (let sent = 0; sent < 300; sent++) ring.add(body("a"));
  expect(ring.since(44)).toHaveLength(256);
  expect(ring.since(43)).toBeNull();
  expect(ring.since(300)).toEqual([]);
  expect(ring.since(301)).toBeNull();
});

test("[signaling] missed pushes are replayed completely and in order, or not at all", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9 }), fc.nat(40), fc.nat(45), (capacity, sent, lastSeq) => {
      const ring = createReplayRing(capacity);
      const frames = Array.from({ length: sent }, (_, i) => ring.add(body(`p${i}`)));
      const missed = ring.since(lastSeq);
      const available = lastSeq <= sent && sent - lastSeq <= capacity;
      expect(missed).toEqual(available ? frames.slice(lastSeq) : null);
    }),
  );
});

test("[signaling] pushes are kept up to a total size, and never replayed in part", () => {
  const sizes = fc.array(fc.nat(60), { maxLength: 40 });
  fc.assert(
    fc.property(sizes, fc.nat(45), (lengths, lastSeq) => {
      const ring = createReplayRing(8, { keptCharacters: 300 });
      const bodies = lengths.map((length) => body("x".repeat(length + 1)));
      const frames = bodies.map((each) => ring.add(each));
      const missed = ring.since(lastSeq);
      if (missed === null) return;
      expect(missed).toEqual(frames.slice(lastSeq));
      expect(missed.length).toBeLessThanOrEqual(8);
      // Numbers are not kept.
      expect(bodies.slice(lastSeq).join("").length).toBeLessThanOrEqual(300);
    }),
    { examples: [[[0, 0, 0, 0, 24, 7, 2, 4], 4]] },
  );
  const ring = createReplayRing(8, { keptCharacters: 300 });
  ring.add(body("x".repeat(400)));
  expect(ring.since(0)).toBeNull();
  expect(ring.since(1)).toEqual([]);
  ring.add(body("y"));
  expect(ring.since(1)).toHaveLength(1);
});

test("[22] a push for many clients is kept in memory once", () => {
  const rings = Array.from({ length: 100 }, () => createReplayRing(64));
  Bun.gc(true);
  const before = heapStats();
  for (let n = 0; n < 64; n++) {
    const body = JSON.stringify({ type: "data", payload: `${n}`.padEnd(8_000, "x") });
    // Converts to bytes, like a socket that sends.
    for (const ring of rings) Buffer.from(ring.add(body));
  }
  Bun.gc(true);
  const { heapSize, extraMemorySize } = heapStats();
  const kept = heapSize + extraMemorySize - before.heapSize - before.extraMemorySize;
  // 64 bodies of 8,000 bytes; each reader's own would be 50 MB.
  expect(kept).toBeLessThan(8_000_000);
  expect(rings.map((ring) => ring.since(63))).toEqual(
    rings.map(() => [`{"seq":64,"type":"data","payload":"${"63".padEnd(8_000, "x")}"}`]),
  );
});
