// A probe measures the capacity of a path by sending at a fixed rate, so the receive loop has to leave it its timers.

import { expect, test } from "bun:test";
import { Prober } from "../../../src/sfu/tracks/allocation.ts";
import type { Subscription } from "../../../src/sfu/tracks/subscription.ts";
import type { UdpPort } from "../../../src/sfu/transport/udp.ts";
import type { SentPackets } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";

const PLAN = { id: 1, bitrate: 1_000_000, bytes: 5_000, durationMs: 40 };
const PACKET_BYTES = 500;

test("the receive loop stays awake between the steps of a probe", async () => {
  const awake: { fromMs: number; untilMs: number }[] = [];
  const sentAtMs: number[] = [];
  const all = Promise.withResolvers<void>();
  const receiveLoop = {
    stayAwake: (nowMs: number, forMs: number) => awake.push({ fromMs: nowMs, untilMs: nowMs + forMs }),
  };
  const probe = (_sent: unknown, _id: number, _udp: unknown, nowMs: number) => {
    sentAtMs.push(nowMs);
    if (sentAtMs.length * PACKET_BYTES >= PLAN.bytes) all.resolve();
    return PACKET_BYTES;
  };
  let nowMs = 0;
  // Time as a step sees it: each comes five milliseconds after the one before, however busy the machine is.
  const prober = new Prober({} as SentPackets, { receiveLoop } as unknown as UdpPort, () => (nowMs += 5));
  prober.start(PLAN, [{ section: { probe } } as unknown as Subscription]);
  await all.promise;
  prober.stop();
  expect(new Set(sentAtMs).size).toBeGreaterThan(3);
  for (const atMs of sentAtMs) expect(awake.some(({ fromMs }) => fromMs === atMs)).toBe(true);
  for (const [i, { untilMs }] of awake.slice(0, -1).entries())
    expect(untilMs).toBeGreaterThan(awake[i + 1]?.fromMs ?? Number.POSITIVE_INFINITY);
});
