// A peer's clocks do not affect the measurement of its path: round trip, jitter and repairs are the same with any clock.

import { describe, expect, test } from "bun:test";
import { SentReports } from "../../../../src/sfu/forwarding/sender-report.ts";
import { NackGenerator } from "../../../../src/sfu/wire/rtcp/nack-generator.ts";
import { Reception } from "../../../../src/sfu/wire/rtcp/reception.ts";
import { compactNtp, msToCompact, ntpFromMs } from "../../../../src/sfu/wire/rtp/ntp.ts";
import { DAY_MS, PeerClock } from "../../peer-clock.ts";

const HOUR_MS = 3_600_000;
const CLOCKS = [0, 1, 7, 12.4, 13, 24.8, 30].flatMap((days) =>
  [-200, 0, 200].map((driftPpm) => ({ uptimeMs: days * DAY_MS, driftPpm, wallAheadMs: days * HOUR_MS })),
);

describe.each(CLOCKS)("a peer up for $uptimeMs ms, drifting by $driftPpm ppm", (options) => {
  const peer = new PeerClock({ ...options, sets: [{ atMs: 30_000, byMs: -HOUR_MS }] });

  test("has the round trip of its path", () => {
    const sent = new SentReports();
    for (let atMs = 0; atMs < 60_000; atMs += 1_000) {
      // Our report has the publisher's wall clock in it; the viewer answers 400 ms after it came, by its own clock.
      const { seconds, fraction } = ntpFromMs(1_700_000_000_000 + peer.wallMs(atMs));
      sent.remember(seconds, fraction, atMs);
      const heldMs = peer.monotonicMs(atMs + 430) - peer.monotonicMs(atMs + 30);
      const block = {
        ssrc: 1,
        fractionLost: 0,
        cumulativeLost: 0,
        highestSequence: 0,
        jitter: 0,
        lastSenderReport: compactNtp(seconds, fraction),
        delaySinceLastSenderReport: msToCompact(heldMs),
      };
      expect(sent.roundTripMs(block, atMs + 460)).toBeCloseTo(60, 0);
    }
  });

  test("has the jitter of its path, and only missing packets are requested", () => {
    const reception = new Reception(1, 90_000);
    const nack = new NackGenerator();
    const asked = new Set<number>();
    for (let number = 0; number < 3_000; number++) {
      const sentMs = number * 20;
      if (number % 100 === 50) continue;
      const timestamp = Math.round(peer.monotonicMs(sentMs) * 90) >>> 0;
      reception.receive(number & 0xffff, timestamp, 1_000, sentMs + 40);
      nack.receive(number & 0xffff, sentMs + 40);
      for (const lost of nack.takeDue(sentMs + 55)) asked.add(lost);
    }
    expect(reception.jitterMs).toBeLessThan(1);
    expect([...asked]).toEqual(Array.from({ length: 30 }, (_, i) => i * 100 + 50));
  });
});
