/** Generated measurements of whole calls, seeded: every cause from the smallest effect that counts to the largest. */
import type { Evidence } from "../../../src/features/sessions/calls/verdict.ts";
import type { Quality, VerdictCause } from "../../../src/protocol/room-records.ts";
import { qualityOf } from "../../../src/sfu/room/health.ts";
import { seededRandom } from "./provoked-causes.ts";

/** From the first to the second as the dose grows from 0 to 1. */
type Grown = (least: number, most: number) => number;
type Between = (least: number, most: number) => number;
type Dosed = Partial<Omit<Evidence, "qualityMs">>;
type Dose = (grown: Grown, between: Between, seconds: number) => Dosed;

const DEVICE_ERRORS = ["NotReadableError", "NotFoundError", "NotAllowedError", "OverconstrainedError", "AbortError"];

/** With what each brings along: what is lost narrows the estimate and the encoder, a full line lets packets wait and drops some. */
const DOSES: Record<VerdictCause, Dose> = {
  none: () => ({}),
  uplink_loss: (grown, between, seconds) => ({
    uplinkLossPercent: grown(3.2, 45),
    limitedByBandwidthSeconds: seconds * between(0, 0.9),
    stalls: between(0, 1) > 0.7 ? 1 : 0,
    stalledMs: between(0, 6_000),
  }),
  downlink_loss: (grown, between, seconds) => ({
    downlinkLossPercent: grown(3.2, 45),
    uplinkLossPercent: between(0, 3),
    leastDownlinkBps: between(50_000, 600_000),
    heldBackSeconds: seconds * between(0, 0.9),
  }),
  uplink_narrow: (grown, between, seconds) => {
    const isFull = between(0, 1) > 0.5;
    return {
      // Some encoders do not notice that the link is full.
      limitedByBandwidthSeconds: isFull && between(0, 1) > 0.5 ? 0 : Math.max(5.5, seconds * grown(0.03, 0.95)),
      rttMs: isFull ? grown(240, 1_000) : between(20, 190),
      uplinkWaitMs: isFull ? grown(210, 950) : between(0, 100),
      // Only where packets wait is there too little room for some of them.
      uplinkLossPercent: isFull ? between(0, 25) : between(0, 2.5),
      waitWhileLosingMs: isFull ? grown(210, 950) : null,
    };
  },
  downlink_narrow: (grown, between, seconds) => ({
    leastDownlinkBps: grown(290_000, 30_000),
    heldBackSeconds: Math.max(10.5, seconds * grown(0.03, 0.95)),
    rttMs: between(30, 900),
    uplinkWaitMs: between(0, 300),
    jitterMs: between(3, 60),
  }),
  high_rtt: (grown, between) => ({ rttMs: grown(355, 2_500), uplinkWaitMs: between(0, 170), transport: "udp" }),
  relayed: (grown) => ({ rttMs: grown(355, 2_500), transport: "relay" }),
  missing_key: (grown, _between, seconds) => ({
    missingKeysOf: ["ada"],
    missingKeySeconds: Math.max(3.5, seconds * grown(0.03, 1)),
  }),
  publisher_cpu: (grown, between, seconds) => ({
    limitedByCpuSeconds: Math.max(5.5, seconds * grown(0.03, 1)),
    limitedByBandwidthSeconds: seconds * between(0, 0.3),
  }),
  device: (grown, between) => ({
    deviceErrors: Array.from(
      { length: Math.round(grown(1, 5)) },
      () => DEVICE_ERRORS[Math.floor(between(0, 5))] ?? "AbortError",
    ),
  }),
  reconnects: (grown, between) => ({
    reconnects: Math.round(grown(2, 30)),
    uplinkLossPercent: between(0, 12),
    stalls: Math.floor(between(0, 3)),
    stalledMs: between(0, 20_000),
  }),
  media_stalled: (grown, between) => ({
    stalls: Math.ceil(between(0, 4)),
    stalledMs: grown(3_100, 60_000),
  }),
  server_link: (grown, between, seconds) => {
    const narrow = {
      leastServerLinkBps: 900_000,
      serverLinkNarrowSeconds: Math.max(10.5, seconds * grown(0.03, 0.95)),
    };
    const kind = between(0, 3);
    if (kind < 1) return narrow;
    return kind < 2 ? { serverLinkLossPercent: grown(3.2, 45) } : { serverLinkRttMs: grown(355, 2_500) };
  },
  server_overload: (grown, between, seconds) => ({
    serverCpuPercent: grown(90.5, 100),
    serverBusySeconds: seconds * grown(0.11, 1),
    uplinkLossPercent: between(4, 40),
    downlinkLossPercent: between(4, 40),
    rttMs: between(30, 2_000),
    limitedByBandwidthSeconds: seconds * between(0, 0.5),
  }),
};
export const DOSED = Object.keys(DOSES) as VerdictCause[];

/** The dose is 0 to 1; the same seed makes the same evidence. */
export function dosedEvidence(cause: VerdictCause, dose: number, seed: number): Evidence {
  const random = seededRandom(seed);
  const between: Between = (least, most) => least + random() * (most - least);
  const grown: Grown = (least, most) => least + dose * (most - least);
  // From half a minute to two hours.
  const seconds = 30 * 240 ** random();
  const figures = { ...everyday(between, seconds), ...DOSES[cause](grown, between, seconds) };
  const { uplinkLossPercent, downlinkLossPercent, rttMs, jitterMs, stalledMs } = figures;
  const lossRatio = Math.max(uplinkLossPercent ?? 0, downlinkLossPercent ?? 0) / 100;
  const felt = qualityOf({ lossRatio, rttMs: rttMs ?? 0, jitterMs: jitterMs ?? 0, silentMs: 0 });
  const qualityMs: Record<Quality, number> = { excellent: 0, good: 0, poor: 0, lost: stalledMs };
  qualityMs[felt] += Math.max(0, seconds * 1_000 - stalledMs);
  return { ...figures, qualityMs };
}

/** Disturbances that no participant notices. */
function everyday(between: Between, seconds: number): Omit<Evidence, "qualityMs"> {
  return {
    uplinkLossPercent: between(0, 2.5),
    downlinkLossPercent: between(0, 2.5),
    rttMs: between(10, 180),
    uplinkWaitMs: between(0, 100),
    waitWhileLosingMs: between(0, 1) > 0.5 ? null : between(0, 150),
    jitterMs: between(1, 12),
    leastDownlinkBps: between(40_000, 4_000_000),
    // An estimate that a moment has frightened.
    heldBackSeconds: between(0, 9),
    transport: between(0, 1) > 0.7 ? "relay" : "udp",
    reconnects: between(0, 1) > 0.7 ? 1 : 0,
    stalls: 0,
    stalledMs: 0,
    // A key that came a moment after its track.
    missingKeysOf: ["ben"],
    missingKeySeconds: between(0, 2.5),
    limitedByCpuSeconds: between(0, 4),
    limitedByBandwidthSeconds: between(0, 4),
    deviceErrors: [],
    serverCpuPercent: between(0, 1) > 0.5 ? between(3, 89) : between(90, 100),
    serverBusySeconds: seconds * between(0, 0.09),
    serverLinkLossPercent: between(0, 1) > 0.5 ? null : between(0, 2.5),
    serverLinkRttMs: between(0, 1) > 0.5 ? null : between(1, 300),
    leastServerLinkBps: 900_000,
    serverLinkNarrowSeconds: between(0, 9),
  };
}
