import { expect, test } from "bun:test";
import fc from "fast-check";
import { createOutbox } from "../../src/kernel/outbox.ts";
import { type PushBody, RESUME_RING_FRAMES } from "../../src/protocol/signaling.ts";

const body = (identity: string) =>
  JSON.stringify({ type: "participant.left", identity, reason: "left" } satisfies PushBody);

test("[signaling] pushes are numbered from 1 without a gap, and are the frames that were sent", () => {
  const outbox = createOutbox(RESUME_RING_FRAMES);
  expect(outbox.seq).toBe(0);
  expect(JSON.parse(outbox.add(body("a")))).toEqual({
    seq: 1,
    type: "participant.left",
    identity: "a",
    reason: "left",
  });
  expect(JSON.parse(outbox.add(body("b"))).seq).toBe(2);
  expect(outbox.seq).toBe(2);
});

test("[signaling] 256 are kept: one more missed, and the client gets a snapshot instead", () => {
  const outbox = createOutbox(RESUME_RING_FRAMES);
  for (let sent = 0; sent < 300; sent++) outbox.add(body("a"));
  expect(outbox.since(44)).toHaveLength(256);
  expect(outbox.since(43)).toBeNull();
  expect(outbox.since(300)).toEqual([]);
  expect(outbox.since(301)).toBeNull();
});

test("[signaling] whatever was missed comes back whole and in order, or not at all", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9 }), fc.nat(40), fc.nat(45), (capacity, sent, lastSeq) => {
      const outbox = createOutbox(capacity);
      const frames = Array.from({ length: sent }, (_, i) => outbox.add(body(`p${i}`)));
      const missed = outbox.since(lastSeq);
      const available = lastSeq <= sent && sent - lastSeq <= capacity;
      expect(missed).toEqual(available ? frames.slice(lastSeq) : null);
    }),
  );
});
