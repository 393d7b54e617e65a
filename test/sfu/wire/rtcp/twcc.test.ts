import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseRtcp } from "../../../../src/sfu/wire/rtcp/rtcp.ts";
import {
  MAX_TWCC_BYTES,
  readStatusChunks,
  TwccRecorder,
  writeStatusChunks,
} from "../../../../src/sfu/wire/rtcp/twcc.ts";
import {
  type AcknowledgedPackets,
  SentPackets,
  TransportFeedback,
} from "../../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { hex } from "../../packets.ts";

/** All reports of the recorder, as sequence number → arrival, or NaN. */
function report(recorder: TwccRecorder): { sequence: number; arrivedMs: number }[] {
  const statuses: { sequence: number; arrivedMs: number }[] = [];
  const out = new Uint8Array(MAX_TWCC_BYTES);
  while (recorder.pending) {
    const end = recorder.writeFeedback(out, 0, 1, 2);
    const [packet] = parseRtcp(out, end);
    if (packet?.type !== "transport-feedback") throw new Error("not feedback");
    const feedback = new TransportFeedback();
    if (!feedback.parse(packet.data, packet.start, packet.end)) throw new Error("unreadable");
    for (let i = 0; i < feedback.count; i++) {
      statuses.push({
        sequence: (feedback.baseSequence + i) & 0xffff,
        arrivedMs: feedback.reference * 64 + (feedback.arrivals[i] as number),
      });
    }
  }
  return statuses;
}

function rows({ count, sentAtMs, arrivedAtMs, bytes, probe }: AcknowledgedPackets): (number | undefined)[][] {
  return Array.from({ length: count }, (_, i) => [sentAtMs[i], arrivedAtMs[i], bytes[i], probe[i]]);
}

describe("transport-wide feedback to a publisher", () => {
  test("arrivals and losses are reported across the wrap", () => {
    const recorder = new TwccRecorder();
    for (const [sequence, at] of [
      [65_534, 1_000],
      [65_535, 1_000.25],
      [2, 1_010],
      [1, 1_012.5],
    ] as const) {
      recorder.record(sequence, at);
    }
    expect(report(recorder)).toEqual([
      { sequence: 65_534, arrivedMs: 1_000 },
      { sequence: 65_535, arrivedMs: 1_000.25 },
      { sequence: 0, arrivedMs: Number.NaN },
      { sequence: 1, arrivedMs: 1_012.5 },
      { sequence: 2, arrivedMs: 1_010 },
    ]);
    expect(recorder.pending).toBe(false);
  });

  test("a known report is written byte by byte", () => {
    const recorder = new TwccRecorder();
    recorder.record(10, 64);
    recorder.record(11, 65);
    recorder.record(13, 164);
    const out = new Uint8Array(MAX_TWCC_BYTES);
    const end = recorder.writeFeedback(out, 0, 0x11111111, 0x22222222);
    // Reference 1 (64 ms), 4 statuses as a two-bit vector 1 1 0 2, deltas 0, 4 and 396 ticks, 2 bytes of padding.
    expect(out.slice(0, end)).toEqual(
      hex("afcd0006 11111111 22222222 000a 0004 000001 00 d480 00 04 018c 0002".replace(/\s/g, "")),
    );
  });

  test("the next report corrects a packet that was reported lost and arrives late", () => {
    const recorder = new TwccRecorder();
    recorder.record(1, 0);
    recorder.record(3, 1);
    expect(report(recorder)[1]).toEqual({ sequence: 2, arrivedMs: Number.NaN });
    recorder.record(2, 5);
    recorder.record(4, 6);
    expect(report(recorder).map(({ sequence, arrivedMs }) => [sequence, arrivedMs])).toEqual([
      [2, 5],
      [3, 1],
      [4, 6],
    ]);
  });

  test("duplicates change nothing", () => {
    const recorder = new TwccRecorder();
    recorder.record(1, 0);
    report(recorder);
    recorder.record(1, 500);
    expect(recorder.pending).toBe(false);
  });

  test("reports are numbered, and the number wraps", () => {
    const recorder = new TwccRecorder();
    const out = new Uint8Array(MAX_TWCC_BYTES);
    for (let i = 0; i < 300; i++) {
      recorder.record(i, i);
      recorder.writeFeedback(out, 0, 1, 2);
      expect(out[19]).toBe(i & 0xff);
    }
  });

  test("a silence of a minute and a jump of thousands are reported with correct numbers", () => {
    const recorder = new TwccRecorder();
    recorder.record(1, 64);
    recorder.record(2, 60_000);
    recorder.record(2_000, 60_001);
    const received = report(recorder).filter(({ arrivedMs }) => !Number.isNaN(arrivedMs));
    expect(received).toEqual([
      { sequence: 1, arrivedMs: 64 },
      { sequence: 2, arrivedMs: 60_000 },
      { sequence: 2_000, arrivedMs: 60_001 },
    ]);
    recorder.record(30_000, 60_002);
    const statuses = report(recorder);
    expect(statuses.at(-1)).toEqual({ sequence: 30_000, arrivedMs: 60_002 });
    expect(statuses.length).toBeLessThanOrEqual(2_048);
  });

  test("arrivals from a whole ring ago do not count", () => {
    const recorder = new TwccRecorder();
    for (let i = 0; i < 5_000; i++) {
      recorder.record(i, i);
      if (i % 100 === 0) report(recorder);
    }
    report(recorder);
    recorder.record(5_004, 5_004);
    expect(report(recorder).map(({ arrivedMs }) => arrivedMs)).toEqual([
      Number.NaN,
      Number.NaN,
      Number.NaN,
      Number.NaN,
      5_004,
    ]);
  });

  test("transport-wide feedback equals a brute-force model for any arrival times, report times and first sequence number", () => {
    fc.assert(
      fc.property(
        fc.nat(65_535),
        fc.array(
          fc.record({
            skip: fc.oneof(fc.constant(0), fc.nat(5), fc.nat(600)),
            waitTicks: fc.oneof(fc.nat(40), fc.nat(1_000), fc.nat(40_000)),
            report: fc.nat(9),
          }),
          { minLength: 1, maxLength: 120 },
        ),
        (start, steps) => {
          const recorder = new TwccRecorder();
          const sent: { extended: number; at: number }[] = [];
          const reported = new Map<number, number>();
          let extended = start - 1;
          let ticks = 1;
          let collectedAt = start;
          const collect = () => {
            collectedAt = extended;
            let next = sent[0]?.extended ?? 0;
            for (const { sequence, arrivedMs } of report(recorder)) {
              while ((next & 0xffff) !== sequence) next++;
              reported.set(next, arrivedMs);
            }
          };
          for (const step of steps) {
            extended += 1 + step.skip;
            ticks += step.waitTicks;
            recorder.record(extended & 0xffff, ticks / 4);
            sent.push({ extended, at: ticks / 4 });
            // Unreported packets are forgotten after 2,048 packets.
            const isDue = step.report === 0 || extended - collectedAt > 1_200;
            if (isDue && extended - start < 60_000) collect();
          }
          if (extended - start >= 60_000) return;
          collect();
          for (const { extended: number, at } of sent) expect(reported.get(number)).toBe(at);
          for (let n = start + (steps[0]?.skip ?? 0); n <= extended; n++) {
            if (!sent.some((packet) => packet.extended === n)) expect(reported.get(n)).toBeNaN();
          }
        },
      ),
      { seed: 9, numRuns: 150 },
    );
  });
});

describe("status chunks", () => {
  test("any statuses are read as they were written", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.tuple(fc.nat(2), fc.nat(40)), fc.tuple(fc.nat(2), fc.constant(1))), {
          minLength: 1,
          maxLength: 60,
        }),
        (runs) => {
          const symbols = Uint8Array.from(
            runs.flatMap(([symbol, length]) => new Array<number>(length + 1).fill(symbol)),
          );
          const out = new Uint8Array(symbols.length * 2 + 4);
          const end = writeStatusChunks(out, 0, symbols, symbols.length);
          expect(end).toBeLessThanOrEqual(2 * Math.ceil(symbols.length / 7));
          const back = new Uint8Array(symbols.length);
          expect(readStatusChunks(out, 0, end, back, symbols.length)).toBe(end);
          expect(back).toEqual(symbols);
        },
      ),
      { seed: 10, numRuns: 500 },
    );
  });
});

describe("transport-wide feedback from a viewer", () => {
  test("is matched with sent packets, each arrival once", () => {
    const sent = new SentPackets(65_534);
    // Reports on packets that were never sent match nothing.
    expect([rows(sent.match(new TransportFeedback(), 1_000)), sent.history(1_000)]).toEqual([[], []]);
    const recorder = new TwccRecorder();
    const numbers = [0, 1, 2, 3].map((i) => sent.next(100 + i, 1_000 + i, i === 3 ? 7 : 0));
    expect(numbers).toEqual([65_534, 65_535, 0, 1]);
    for (const number of [65_534, 0, 1]) recorder.record(number, 50);
    const out = new Uint8Array(MAX_TWCC_BYTES);
    const [packet] = parseRtcp(out, recorder.writeFeedback(out, 0, 1, 2));
    if (packet?.type !== "transport-feedback") throw new Error("not feedback");
    const feedback = new TransportFeedback();
    feedback.parse(packet.data, packet.start, packet.end);
    expect(rows(sent.match(feedback, 1_100))).toEqual([
      [1_000, 50, 100, 0],
      [1_001, Number.NaN, 101, 0],
      [1_002, 50, 102, 0],
      [1_003, 50, 103, 7],
    ]);
    expect(rows(sent.match(feedback, 1_100))).toEqual([[1_001, Number.NaN, 101, 0]]);
  });

  test("a packet that is sent again under its number counts as lost once, whichever copy arrived", () => {
    const sent = new SentPackets(65_534);
    for (let i = 0; i < 4; i++) sent.next(100 + i, 1_000 + i);
    const feedback = new TransportFeedback();
    Object.assign(feedback, { baseSequence: 65_534, count: 3, reference: 0 });
    feedback.arrivals.set([1, Number.NaN, 2]);
    // The request comes before the report that the second packet after it causes.
    sent.sentAgain(0);
    const [first, second, third] = rows(sent.match(feedback, 1_100));
    expect([first?.[1], second?.[1], third?.[1]]).toEqual([1, Number.NaN, Number.NaN]);
    sent.sentAgain(65_535);
    feedback.arrivals.set([1, 60, 2]);
    expect(rows(sent.match(feedback, 1_200))).toEqual([]);
    // Numbers of a client that never reports are forgotten.
    for (let i = 0; i < 5_000; i++) sent.sentAgain(sent.next(100, 2_000));
    expect(rows(sent.match(Object.assign(feedback, { baseSequence: 2, count: 5_000 }), 2_100)).length).toBeLessThan(
      100,
    );
  });

  test("absurd packets are refused", () => {
    const feedback = new TransportFeedback();
    const head = "8fcd0005 00000001 00000002 0001";
    expect(feedback.parse(hex(`${head} 0000 000000 00`))).toBe(false);
    expect(feedback.parse(hex(`${head} ffff 000000 00 3fff 0000`))).toBe(false);
    // An empty run, and deltas that are not there.
    expect(feedback.parse(hex(`${head} 0005 000000 00 2000 2000`))).toBe(false);
    expect(feedback.parse(hex(`${head} 0005 000000 00 2005 0000`))).toBe(false);
    expect(feedback.parse(hex(`${head} 0002 000000 00 2002 0401`))).toBe(true);
    expect([...feedback.arrivals.subarray(0, 2)]).toEqual([1, 1.25]);
  });

  test("the reference time is unsigned, and arrivals are relative to it", () => {
    const feedback = new TransportFeedback();
    expect(feedback.parse(hex("8fcd0005 00000001 00000002 0001 0001 ffffff 00 2001 0400"))).toBe(true);
    expect(feedback.reference).toBe(0xffffff);
    expect(feedback.arrivals[0]).toBe(1);
  });

  test("arrival times are relative to the first report, even when the reference time wraps or reports are out of order", () => {
    const feedback = new TransportFeedback();
    for (const first of [0, 1, 0x7fffff, 0x800000, 0xfffffe, 0xffffff]) {
      const sent = new SentPackets(0);
      const arrivals: number[] = [];
      for (const [i, later] of [0, 1, 3, 2, 5].entries()) {
        sent.next(100, 1_000);
        feedback.reference = (first + later) & 0xffffff;
        feedback.baseSequence = i;
        feedback.count = 1;
        feedback.arrivals[0] = 0.25;
        arrivals.push(sent.match(feedback, 1_001).arrivedAtMs[0] as number);
      }
      expect(arrivals).toEqual([0.25, 64.25, 192.25, 128.25, 320.25]);
    }
  });
});
