// Lips and audio of one publisher stay together, whatever its clocks and its path do.

import { describe, expect, test } from "bun:test";
import { PublisherClock, StreamClock } from "../../../src/sfu/tracks/publisher-clock.ts";
import type { ClockReference } from "../../../src/sfu/wire/rtp/timestamp-map.ts";
import { DAY_MS, PeerClock } from "../peer-clock.ts";

const HOUR_MS = 3_600_000;

interface Stream {
  clockRate: number;
  firstTimestamp: number;
  clock: StreamClock;
  /** The reference by which viewers synchronise. */
  reference: ClockReference | null;
}

/** A microphone and a camera that report once a second, the camera half a second later. */
class Publisher {
  readonly streams: [Stream, Stream] = [stream(48_000, 4_000_000_000), stream(90_000, 123)];
  readonly #clock = new PublisherClock((byMs) => {
    for (const of of this.streams)
      if (of.reference) of.reference = { ...of.reference, ntpMs: of.reference.ntpMs + byMs };
  });
  worstMs = 0;
  worstOffsetMs = 0;

  constructor(
    readonly peer: PeerClock,
    readonly delayMs: (sentMs: number) => number = () => 30,
    readonly roundTripMs: (sentMs: number) => number | null = () => null,
  ) {}

  run(untilMs: number): this {
    const arrivals: { atMs: number; sentMs: number; of: Stream }[] = [];
    for (let sentMs = 0; sentMs < untilMs; sentMs += 500) {
      const of = this.streams[(sentMs / 500) % 2] as Stream;
      arrivals.push({ atMs: sentMs + this.delayMs(sentMs), sentMs, of });
    }
    arrivals.sort((a, b) => a.atMs - b.atMs);
    for (const { atMs, sentMs, of } of arrivals) {
      const report = { ntpMs: this.peer.wallMs(sentMs), rtpTimestamp: this.timestamp(of, sentMs) };
      const roundTripMs = this.roundTripMs(sentMs);
      const placed = this.#clock.place(of.clock, report, of.clockRate, 1_000_000 + atMs, roundTripMs);
      of.reference = placed ?? of.reference;
      this.#compare(atMs);
    }
    return this;
  }

  timestamp({ clockRate, firstTimestamp }: Stream, trueMs: number): number {
    return (firstTimestamp + Math.round((this.peer.monotonicMs(trueMs) * clockRate) / 1000)) >>> 0;
  }

  /** The delay with which the audio and the video of one moment are placed. */
  lateMs(trueMs: number): (number | null)[] {
    return this.streams.map(({ reference, clockRate, ...of }) => {
      if (!reference) return null;
      const ahead = (this.timestamp({ reference, clockRate, ...of }, trueMs) - reference.rtpTimestamp) | 0;
      return reference.ntpMs + (ahead * 1000) / clockRate - 1_000_000 - trueMs;
    });
  }

  #compare(trueMs: number): void {
    const [audio = null, video = null] = this.lateMs(trueMs);
    if (audio === null || video === null) return;
    this.worstMs = Math.max(this.worstMs, Math.abs(audio - video));
    this.worstOffsetMs = Math.max(this.worstOffsetMs, Math.abs(audio));
  }
}

function stream(clockRate: number, firstTimestamp: number): Stream {
  return { clockRate, firstTimestamp, clock: new StreamClock(), reference: null };
}

describe("audio and video synchronisation", () => {
  test.each([0, 0.5, 7, 12.4, 13, 24.9, 30])(
    "holds after %d days of uptime, with a clock that is hours wrong",
    (days) => {
      for (const wallAheadMs of [0, -7 * HOUR_MS, 3 * HOUR_MS + 123]) {
        const publisher = new Publisher(new PeerClock({ uptimeMs: days * DAY_MS, wallAheadMs })).run(60_000);
        expect(publisher.worstMs).toBeLessThan(1);
        expect(publisher.worstOffsetMs).toBeLessThan(100);
      }
    },
  );

  test.each([-200, 200])("holds with clocks that drift by %d ppm, for three hours", (driftPpm) => {
    const publisher = new Publisher(new PeerClock({ driftPpm })).run(3 * HOUR_MS);
    expect(publisher.worstMs).toBeLessThan(5);
    expect(publisher.worstOffsetMs).toBeLessThan(200);
  });

  test.each([1_500, 3_000, 10_000])(
    "holds over a stall of %d ms, after which everything arrives together",
    (stallMs) => {
      const stalls = (sentMs: number) =>
        sentMs >= 20_000 && sentMs < 20_000 + stallMs ? 20_000 + stallMs - sentMs + 30 : 30;
      const publisher = new Publisher(new PeerClock({ wallAheadMs: 5 * HOUR_MS }), stalls).run(60_000);
      expect(publisher.worstMs).toBeLessThan(5);
      expect(publisher.worstOffsetMs).toBeLessThan(100);
    },
  );

  test("holds over a queue that grows to three seconds and stays", () => {
    const publisher = new Publisher(new PeerClock(), (sentMs) => 30 + Math.min(3_000, sentMs / 10)).run(120_000);
    expect(publisher.worstMs).toBeLessThan(5);
  });

  test.each([-HOUR_MS, -3_000, -400, 400, 3_000, HOUR_MS])(
    "holds when the clock is set by %d ms during the call",
    (byMs) => {
      const peer = new PeerClock({ sets: [{ atMs: 30_250, byMs }], driftPpm: 50 });
      const publisher = new Publisher(peer).run(120_000);
      expect(publisher.worstMs).toBeLessThan(60);
      expect(publisher.worstOffsetMs).toBeLessThan(200);
    },
  );

  test.each([-0.025, 0.013, 0.025])(
    "holds when audio alone falls behind by a share of %d, with reports every five seconds",
    (share) => {
      const clock = new PublisherClock();
      const [audio, video] = [stream(48_000, 4_000_000_000), stream(90_000, 123)];
      for (let sentMs = 0; sentMs < 120_000; sentMs += 1_000) {
        for (const of of sentMs % 5_000 === 0 ? [audio, video] : [video]) {
          const countedMs = of === audio ? sentMs * (1 - share) : sentMs;
          const rtpTimestamp = (of.firstTimestamp + Math.round((countedMs * of.clockRate) / 1_000)) >>> 0;
          const placed = clock.place(of.clock, { ntpMs: sentMs + HOUR_MS, rtpTimestamp }, of.clockRate, sentMs + 30);
          expect(placed?.ntpMs).toBeCloseTo(sentMs + 30, 0);
        }
      }
    },
  );

  test("when one stream's time jumps, the third report is accepted", () => {
    const publisher = new Publisher(new PeerClock()).run(20_000);
    const [audio, video] = publisher.streams;
    const clock = new PublisherClock();
    const place = (of: Stream, sentMs: number, jump: number) =>
      clock.place(
        of.clock,
        { ntpMs: sentMs, rtpTimestamp: (publisher.timestamp(of, sentMs) + jump) >>> 0 },
        of.clockRate,
        sentMs,
      );
    for (const of of [audio, video]) of.clock = new StreamClock();
    for (let sentMs = 0; sentMs < 5_000; sentMs += 1_000) for (const of of [audio, video]) place(of, sentMs, 0);
    const references = [5_000, 6_000, 7_000, 8_000].map((sentMs) => place(video, sentMs, 900_000));
    expect(references.map((reference) => reference !== null)).toEqual([false, false, true, true]);
    expect(references[3]?.ntpMs).toBeCloseTo(8_000, 0);
    expect(place(audio, 9_000, 0)?.ntpMs).toBeCloseTo(9_000, 0);
  });
});

describe("publishers among themselves", () => {
  /** Between 0 and 1, the same in every run. */
  const chance = (seed: number) => {
    let state = seed;
    return () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state / 2 ** 32;
    };
  };
  const jittery = (seed: number, delay: (sentMs: number, random: number) => number) => {
    const random = chance(seed);
    return (sentMs: number) => delay(sentMs, random());
  };

  test("are synchronous although the first reports of one are late", () => {
    const prompt = () =>
      new Publisher(
        new PeerClock({ wallAheadMs: HOUR_MS }),
        jittery(1, (_, random) => 2 + 20 * random),
      );
    const busy = () =>
      new Publisher(
        new PeerClock({ wallAheadMs: -HOUR_MS, driftPpm: 20 }),
        jittery(2, (sentMs, random) => (sentMs < 5_000 ? 90 : 2) + 40 * random),
      );
    for (const atMs of [12_000, 60_000, 180_000]) {
      const [a, b] = [prompt().run(atMs), busy().run(atMs)];
      const apart = a.lateMs(atMs).map((late, i) => Math.abs((late ?? 0) - (b.lateMs(atMs)[i] ?? 0)));
      expect(Math.max(...apart)).toBeLessThan(8);
      expect(Math.max(a.worstMs, b.worstMs)).toBeLessThan(3);
    }
  });

  test("are synchronous although one is far away, when the round trip is known", () => {
    const near = new Publisher(
      new PeerClock(),
      () => 3,
      () => 6,
    ).run(60_000);
    const far = new Publisher(
      new PeerClock(),
      jittery(3, (_, random) => 150 + 30 * random),
      (sentMs) => (sentMs < 4_000 ? null : 302),
    ).run(60_000);
    expect(Math.abs((near.lateMs(60_000)[0] ?? 0) - (far.lateMs(60_000)[0] ?? 0))).toBeLessThan(5);
    expect(far.worstMs).toBeLessThan(3);
  });

  test("a longer path does not change the clock at once", () => {
    const publisher = new Publisher(new PeerClock(), (sentMs) => (sentMs < 60_000 ? 10 : 200)).run(90_000);
    expect(publisher.worstOffsetMs).toBeLessThan(40);
    expect(publisher.worstMs).toBeLessThan(5);
  });
});
