// The code that counts packets is written for speed. Here is the same in the plainest form, and both must agree for any reports:
// lost, late, repeated and reordered packets, wrapped numbers, and probes.

import { expect, test } from "bun:test";
import fc from "fast-check";
import { LossFilter } from "../../../src/sfu/bandwidth/loss-filter.ts";
import { RateMeter } from "../../../src/sfu/bandwidth/rate-meter.ts";
import { Trendline } from "../../../src/sfu/bandwidth/trendline.ts";
import { MAX_TWCC_BYTES, TwccRecorder } from "../../../src/sfu/wire/rtcp/twcc.ts";
import { SentPackets, TransportFeedback } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { reportOf } from "./report-of.ts";

type Packet = { sentAtMs: number; arrivedAtMs: number; bytes: number; probe: number };

const HISTORY = 2_048;
const MAX_AGE_MS = 10_000;

/** The state of `SentPackets`, with one object for each packet. */
class PlainSentPackets {
  readonly #known = new Map<
    number,
    { sequence: number; sentAtMs: number; bytes: number; probe: number; isReported: boolean }
  >();
  #next: number;
  #firstReference: number | null = null;

  constructor(first: number) {
    this.#next = first;
  }

  next(bytes: number, sentAtMs: number, probe: number): number {
    const sequence = this.#next % 0x10000;
    this.#known.set(sequence % HISTORY, { sequence, sentAtMs, bytes, probe, isReported: false });
    this.#next++;
    return sequence;
  }

  match({ baseSequence, count, reference, arrivals }: TransportFeedback, nowMs: number): Packet[] {
    this.#firstReference ??= reference;
    // None of these calls lasts for half a wrap.
    const ahead = (reference - this.#firstReference + 0x1000000) % 0x1000000;
    const referenceMs = (ahead < 0x800000 ? ahead : ahead - 0x1000000) * 64;
    return Array.from({ length: count }, (_, i) => i).flatMap((i) => {
      const sequence = (baseSequence + i) % 0x10000;
      const packet = this.#known.get(sequence % HISTORY);
      if (!packet || packet.sequence !== sequence || packet.isReported || nowMs - packet.sentAtMs > MAX_AGE_MS)
        return [];
      const arrivedAtMs = referenceMs + (arrivals[i] as number);
      packet.isReported = !Number.isNaN(arrivedAtMs);
      return [{ sentAtMs: packet.sentAtMs, arrivedAtMs, bytes: packet.bytes, probe: packet.probe }];
    });
  }
}

const CALL = fc.record({
  first: fc.nat(0xffff),
  viewerClockMs: fc.oneof(fc.constant(0), fc.nat(1e9), fc.constant(0x1000000 * 64 - 500)),
  startMs: fc.oneof(fc.nat(1e6), fc.constant(1.7e12)),
  turns: fc.array(
    fc.record({
      waitMs: fc.oneof(fc.nat(60), fc.nat(60), fc.nat(60), fc.nat(4_000)),
      packets: fc.array(
        fc.record({
          bytes: fc.integer({ min: 1, max: 1_500 }),
          probe: fc.oneof(fc.constant(0), fc.constant(0), fc.nat(255)),
          delayMs: fc.oneof(fc.nat(40), fc.nat(400), fc.constant(Number.NaN)),
          afterMs: fc.nat(3),
        }),
        { maxLength: 60 },
      ),
      reports: fc.constantFrom("once", "once", "twice", "lost"),
    }),
    { minLength: 1, maxLength: 60 },
  ),
});

/** Plays a call to `each`: one report of the viewer at a time. */
function play(
  call: typeof CALL extends fc.Arbitrary<infer T> ? T : never,
  each: (feedback: TransportFeedback, sent: SentPackets, plain: PlainSentPackets, nowMs: number) => void,
): void {
  const sent = new SentPackets(call.first);
  const plain = new PlainSentPackets(call.first);
  const viewer = new TwccRecorder();
  const feedback = new TransportFeedback();
  // In front of it and behind it lies something else, as in the datagram it came in.
  const out = new Uint8Array(MAX_TWCC_BYTES + 16).fill(0x5a);
  let nowMs = call.startMs;
  for (const { waitMs, packets, reports } of call.turns) {
    nowMs += waitMs;
    const arriving: { sequence: number; atMs: number }[] = [];
    for (const { bytes, probe, delayMs, afterMs } of packets) {
      nowMs += afterMs;
      const sequence = sent.next(bytes, nowMs, probe);
      expect(plain.next(bytes, nowMs, probe)).toBe(sequence);
      if (!Number.isNaN(delayMs)) arriving.push({ sequence, atMs: nowMs - call.startMs + delayMs });
    }
    arriving.sort((a, b) => a.atMs - b.atMs);
    for (const { sequence, atMs } of arriving) viewer.record(sequence, call.viewerClockMs + atMs);
    while (viewer.pending) {
      const end = viewer.writeFeedback(out, 8, 1, 2);
      const padding = ((out[8] as number) & 0x20) === 0 ? 0 : (out[end - 1] as number);
      const times = { once: 1, twice: 2, lost: 0 }[reports];
      for (let time = 0; time < times; time++) {
        expect(feedback.parse(out, 8, end - padding)).toBe(true);
        each(feedback, sent, plain, nowMs + 20);
      }
    }
  }
}

function listed({ acknowledged }: TransportFeedback): Packet[] {
  const { count, sentAtMs, arrivedAtMs, bytes, probe } = acknowledged;
  return Array.from({ length: count }, (_, i) => ({
    sentAtMs: sentAtMs[i] as number,
    arrivedAtMs: arrivedAtMs[i] as number,
    bytes: bytes[i] as number,
    probe: probe[i] as number,
  }));
}

test("reports are matched with what was sent", () => {
  fc.assert(
    fc.property(CALL, (call) => {
      play(call, (feedback, sent, plain, nowMs) => {
        sent.match(feedback, nowMs);
        expect(listed(feedback)).toEqual(plain.match(feedback, nowMs));
      });
    }),
    { seed: 18, numRuns: 150 },
  );
});

test("a rate counts the last ten buckets on any clock", () => {
  const steps = fc.array(fc.tuple(fc.nat(1_500), fc.oneof(fc.integer({ min: -60, max: 200 }), fc.nat(3_000))), {
    minLength: 1,
    maxLength: 200,
  });
  const start = fc.oneof(fc.integer({ min: -5_000, max: 5_000 }), fc.constant(1.7e12), fc.constant(-1.7e12));
  fc.assert(
    fc.property(start, steps, (startMs, packets) => {
      const meter = new RateMeter();
      const buckets = new Map<number, number>();
      let nowMs = startMs;
      for (const [bytes, laterMs] of packets) {
        nowMs += laterMs;
        meter.add(bytes, nowMs);
        const bucket = Math.floor(nowMs / 50);
        buckets.set(bucket, (buckets.get(bucket) ?? 0) + bytes);
        const newest = Math.max(...buckets.keys());
        const from = Math.max(Math.min(...buckets.keys()), newest - 10);
        let sum = 0;
        for (let i = from; i < newest; i++) sum += buckets.get(i) ?? 0;
        expect(meter.latestBitsPerSecond()).toBe(newest > from ? (sum * 8_000) / ((newest - from) * 50) : 0);
      }
    }),
    { seed: 18, numRuns: 150 },
  );
});

test("packets counted in one call count like single packets", () => {
  const steps = fc.array(
    fc.record({ bytes: fc.nat(1_500), laterMs: fc.integer({ min: -60, max: 120 }), isLost: fc.boolean() }),
    {
      minLength: 1,
      maxLength: 100,
    },
  );
  const start = fc.oneof(fc.integer({ min: -5_000, max: 5_000 }), fc.constant(1.7e12), fc.constant(-1.7e12));
  fc.assert(
    fc.property(start, fc.array(steps, { maxLength: 4 }), (startMs, reports) => {
      const [together, each] = [new RateMeter(), new RateMeter()];
      let nowMs = startMs;
      for (const packets of reports) {
        const report = reportOf(
          packets.map(({ bytes, laterMs, isLost }) => {
            nowMs += laterMs;
            if (!isLost) each.add(bytes, nowMs);
            return { sentAtMs: 0, arrivedAtMs: isLost ? Number.NaN : nowMs, bytes };
          }),
        );
        together.addAll(report.bytes, report.arrivedAtMs, report.count);
        expect(together.latestBitsPerSecond()).toBe(each.latestBitsPerSecond());
        expect(together.isFull).toBe(each.isFull);
      }
    }),
    { seed: 18, numRuns: 150 },
  );
});

/** The gradient of the delay from all packets there ever were, computed again for each. */
function plainSignal(packets: readonly Packet[]): string {
  const groups: Packet[][] = [];
  for (const packet of packets) {
    const group = groups.at(-1);
    if (group && packet.sentAtMs - (group[0] as Packet).sentAtMs <= 5) group.push(packet);
    else groups.push([packet]);
  }
  const ends = groups.slice(0, -1).map((group) => ({
    sentMs: Math.max(...group.map(({ sentAtMs }) => sentAtMs)),
    arrivedMs: Math.max(...group.map(({ arrivedAtMs }) => arrivedAtMs)),
  }));
  const line: { time: number; delay: number }[] = [];
  let [later, smoothed, threshold, lastTrend, overMs, overs] = [0, 0, 12.5, 0, -1, 0];
  let thresholdAtMs = -1;
  let signal = "normal";
  for (const [i, end] of ends.entries()) {
    const before = ends[i - 1];
    if (!before) continue;
    const sentLater = end.sentMs - before.sentMs;
    later += end.arrivedMs - before.arrivedMs - sentLater;
    smoothed = 0.9 * smoothed + (1 - 0.9) * later;
    line.push({ time: end.arrivedMs, delay: smoothed });
    if (line.length < 20) continue;
    const trend = slopeOf(line.slice(-20));
    const size = Math.min(line.length, 60) * trend * 4;
    if (size > threshold) {
      overMs = overMs < 0 ? sentLater / 2 : overMs + sentLater;
      overs += 1;
      if (overMs > 10 && overs > 1 && trend >= lastTrend) [overMs, overs, signal] = [0, 0, "overuse"];
    } else [overMs, overs, signal] = [-1, 0, size < -threshold ? "underuse" : "normal"];
    lastTrend = trend;
    const elapsedMs = thresholdAtMs < 0 ? 0 : Math.max(0, Math.min(end.arrivedMs - thresholdAtMs, 100));
    thresholdAtMs = end.arrivedMs;
    if (Math.abs(size) > threshold + 15) continue;
    const pace = Math.abs(size) < threshold ? 0.039 : 0.0087;
    threshold = Math.max(6, Math.min(600, threshold + pace * (Math.abs(size) - threshold) * elapsedMs));
  }
  return signal;
}

function slopeOf(line: readonly { time: number; delay: number }[]): number {
  const origin = line[0]?.time ?? 0;
  const meanTime = line.reduce((sum, { time }) => sum + time - origin, 0) / line.length;
  const meanDelay = line.reduce((sum, { delay }) => sum + delay, 0) / line.length;
  const numerator = line.reduce((sum, { time, delay }) => sum + (time - origin - meanTime) * (delay - meanDelay), 0);
  const denominator = line.reduce((sum, { time }) => sum + (time - origin - meanTime) ** 2, 0);
  return denominator === 0 ? 0 : numerator / denominator;
}

test("a delay that grows or shrinks is seen with the same packet", () => {
  const seen = new Set<string>();
  const delays = fc.array(fc.record({ sentLaterMs: fc.nat(12), jitterMs: fc.nat(8) }), {
    minLength: 150,
    maxLength: 150,
  });
  fc.assert(
    fc.property(delays, fc.integer({ min: -6, max: 6 }), fc.nat(1e9), (steps, growsByMs, startMs) => {
      const trendline = new Trendline();
      const packets: Packet[] = [];
      let sentAtMs = startMs;
      for (const [i, { sentLaterMs, jitterMs }] of steps.entries()) {
        sentAtMs += sentLaterMs;
        const arrivedAtMs = sentAtMs + 2_000 + jitterMs + (i < 50 ? 0 : i * growsByMs);
        packets.push({ sentAtMs, arrivedAtMs, bytes: 1_000, probe: 0 });
        trendline.add(reportOf([{ sentAtMs, arrivedAtMs, bytes: 1_000 }]));
        expect(trendline.signal as string).toBe(plainSignal(packets));
        seen.add(trendline.signal);
      }
    }),
    { seed: 18, numRuns: 40 },
  );
  expect([...seen].sort()).toEqual(["normal", "overuse", "underuse"]);
});

test("lost packets are counted one by one", () => {
  fc.assert(
    fc.property(CALL, (call) => {
      const filter = new LossFilter();
      let [reported, lost] = [0, 0];
      play(call, (feedback, sent, plain, nowMs) => {
        filter.add(sent.match(feedback, nowMs));
        for (const { arrivedAtMs } of plain.match(feedback, nowMs)) {
          reported++;
          if (Number.isNaN(arrivedAtMs)) lost++;
        }
      });
      expect(filter.takeSeen()).toBe(reported === 0 ? null : lost / reported);
    }),
    { seed: 18, numRuns: 100 },
  );
});
