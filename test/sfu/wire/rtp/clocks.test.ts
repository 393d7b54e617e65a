// Time advances evenly for viewers and in recordings, whatever a publisher's clocks show and however they run.

import { describe, expect, test } from "bun:test";
import { MediaTime } from "../../../../src/sfu/recording/media-time.ts";
import { PublisherClock, StreamClock } from "../../../../src/sfu/tracks/publisher-clock.ts";
import { type ClockReference, TimestampMap } from "../../../../src/sfu/wire/rtp/timestamp-map.ts";
import { DAY_MS, PeerClock, type PeerClockOptions } from "../../peer-clock.ts";

const HOUR_MS = 3_600_000;
const RATE = 90_000;
const PATH_MS = 40;
const FRAME_MS = 40;
const SET = [{ atMs: 60_250, byMs: -2 * HOUR_MS }];
const CLOCKS: PeerClockOptions[] = [0, 0.55, 1, 7, 12.4, 13, 24.8, 30].flatMap((days) =>
  [-200, 0, 200].map((driftPpm) => ({ uptimeMs: days * DAY_MS, driftPpm, wallAheadMs: (days - 9) * HOUR_MS })),
);

/** Frames of one layer, and a report a second; each layer begins to count at another number. */
class Layer {
  readonly #peer: PeerClock;
  readonly #first: number;
  readonly #clock = new StreamClock();
  reference: ClockReference | undefined;

  constructor(peer: PeerClock, first: number) {
    this.#peer = peer;
    this.#first = first;
  }

  timestamp(trueMs: number): number {
    return (this.#first + Math.round((this.#peer.monotonicMs(trueMs) * RATE) / 1000)) >>> 0;
  }

  report(publisher: PublisherClock, trueMs: number): ClockReference | null {
    const report = { ntpMs: this.#peer.wallMs(trueMs), rtpTimestamp: this.timestamp(trueMs) };
    const reference = publisher.place(this.#clock, report, RATE, trueMs + PATH_MS);
    if (reference) this.reference = reference;
    return reference ?? null;
  }
}

describe.each(CLOCKS)("a publisher up for $uptimeMs ms, drifting by $driftPpm ppm", (options) => {
  test.each([
    ["left alone", []],
    ["set during the call", SET],
  ])("whose clock is %s: time continues for a subscriber that switches layers", (_, sets) => {
    const peer = new PeerClock({ ...options, sets });
    const publisher = new PublisherClock();
    const layers = [new Layer(peer, 0xffff_0000), new Layer(peer, 77)] as const;
    const map = new TimestampMap(RATE, 1_000);
    let [shown, first, worstMs] = [0, 0, 0];
    for (let trueMs = 0; trueMs < 120_000; trueMs += FRAME_MS) {
      if (trueMs % 1_000 === 0) {
        for (const [index, layer] of layers.entries()) {
          const reference = layer.report(publisher, trueMs);
          if (reference && index === shown) map.setReference(reference);
        }
      }
      const atMs = trueMs + PATH_MS;
      const isSwitch = trueMs > 0 && trueMs % 7_000 === 0;
      if (isSwitch) shown = 1 - shown;
      const layer = layers[shown as 0 | 1];
      const timestamp = layer.timestamp(trueMs);
      if (trueMs === 0 || isSwitch)
        map.switchTo(timestamp, atMs, { sameClock: false, otherSource: false, reference: layer.reference });
      const outgoing = map.map(timestamp, atMs, false);
      if (trueMs === 0) first = outgoing;
      const elapsedMs = ((outgoing - first) >>> 0) / (RATE / 1000);
      worstMs = Math.max(worstMs, Math.abs(elapsedMs - trueMs));
    }
    // The publisher's own drift of up to 24 ms in two minutes applies to audio and video alike.
    expect(worstMs).toBeLessThan(60);
  });

  test("is recorded at its true time", () => {
    const peer = new PeerClock({ ...options, sets: SET });
    const publisher = new PublisherClock();
    const layer = new Layer(peer, 0xffff_0000);
    const time = new MediaTime(RATE);
    let worstMs = 0;
    for (let trueMs = 0; trueMs < 600_000; trueMs += FRAME_MS) {
      if (trueMs % 1_000 === 0) {
        const reference = layer.report(publisher, trueMs);
        if (reference && trueMs === 0) time.expect(reference);
        else if (reference) time.report(reference);
      }
      const at = time.at(layer.timestamp(trueMs), trueMs + PATH_MS);
      worstMs = Math.max(worstMs, Math.abs(at - trueMs - PATH_MS));
    }
    expect(worstMs).toBeLessThan(100);
  });
});

describe("audio that is captured more slowly or faster than real time", () => {
  const SOUND_RATE = 48_000;
  const PACKET_MS = 20;
  const REPORT_MS = 5_000;
  const SETTLED_MS = 3 * REPORT_MS;

  /** How much too late moments are recorded, from the third report on, when the audio lags by `lagsByMs`. */
  function recorded(lagsByMs: (trueMs: number) => number): number[] {
    const publisher = new PublisherClock();
    const stream = new StreamClock();
    const time = new MediaTime(SOUND_RATE);
    const late: number[] = [];
    const timestampAt = (trueMs: number) => (0xffff_0000 + Math.round((trueMs - lagsByMs(trueMs)) * 48)) >>> 0;
    for (let trueMs = 0; trueMs < 120_000; trueMs += PACKET_MS) {
      const at = time.at(timestampAt(trueMs), trueMs + PATH_MS);
      if (trueMs >= SETTLED_MS) late.push(at - trueMs - PATH_MS);
      if (trueMs % REPORT_MS !== 1_000) continue;
      const report = { ntpMs: trueMs + 7 * HOUR_MS, rtpTimestamp: timestampAt(trueMs) };
      const reference = publisher.place(stream, report, SOUND_RATE, trueMs + PATH_MS);
      expect(reference).not.toBeNull();
      if (reference) time.report(reference);
    }
    return late;
  }

  test.each([-0.02, -0.013, -0.001, 0.001, 0.013, 0.02])(
    "by a share of %d: audio is recorded at its true time",
    (share) => {
      for (const late of recorded((trueMs) => share * trueMs)) expect(Math.abs(late)).toBeLessThan(20);
    },
  );

  test("after some of it was lost on the way to the encoder, it is where it was within two reports", () => {
    const late = recorded((trueMs) => (trueMs < 30_500 ? 0 : 90));
    const packet = (atMs: number) => Math.floor((atMs - SETTLED_MS) / PACKET_MS);
    const after = late.slice(packet(30_500 + 2 * REPORT_MS));
    expect(Math.max(...late.map(Math.abs))).toBeLessThan(100);
    expect(Math.max(...after.map(Math.abs))).toBeLessThan(40);
    expect(Math.max(...late.slice(packet(60_000)).map(Math.abs))).toBeLessThan(15);
  });

  const jumps = (late: number[]) =>
    late.map((at, i) => at - (late[i - 1] ?? at)).filter((step) => Math.abs(step) > PACKET_MS * 0.06);

  test("silence replaces lost audio once the loss is known", () => {
    const [lost = 0, silence = 0, ...more] = jumps(recorded((trueMs) => (trueMs < 30_500 ? 0 : 140)));
    expect(more).toEqual([]);
    expect(lost).toBeCloseTo(-140, 0);
    expect(Math.abs(silence - 140)).toBeLessThan(15);
  });

  test("time is stretched inaudibly where there is too much audio", () => {
    const late = recorded((trueMs) => (trueMs < 30_500 ? 0 : -140));
    expect(jumps(late)).toHaveLength(1);
    expect(Math.abs(late.at(-1) ?? 0)).toBeLessThan(15);
  });
});
