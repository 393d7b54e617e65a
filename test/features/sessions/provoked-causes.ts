/** Calls as they are measured, seeded: healthy ones with the noise of everyday, and one for every cause with its fault. */
import type { TransportStats } from "../../../src/protocol/media-node.ts";
import type { Quality, VerdictCause } from "../../../src/protocol/room-records.ts";
import { qualityOf } from "../../../src/sfu/room/health.ts";

/** Five seconds of a call: what the server measured, and what the client said. */
export type Sample = {
  stats: Partial<TransportStats>;
  quality: Quality;
  cpuPercent: number;
  stalled: boolean;
  reconnects: number;
  limited?: { limitation: "cpu" | "bandwidth"; seconds: number };
  deviceError?: string;
  missingKeysOf: string[];
};
export type ProvokedCall = { transport: "udp" | "relay"; samples: Sample[] };

export const SAMPLE_MS = 5_000;
const DEVICE_ERRORS = ["NotReadableError", "NotFoundError", "NotAllowedError", "OverconstrainedError", "AbortError"];

type Between = (least: number, most: number) => number;
type Fault = (figures: Figures, between: Between) => void;
/** The figures that a fault changes, from which the quality is computed. */
type Figures = {
  uplinkLossPercent: number;
  downlinkLossPercent: number;
  rttMs: number;
  jitterMs: number;
  availableOutBps: number;
  heldBack: boolean;
} & Omit<Sample, "stats" | "quality">;

/** While it lasts; a bad link needs a second media node: test/gateways/signaling/sites.test.ts. Each comes with what it brings along: lost packets narrow the estimate, a busy server loses packets. */
const FAULTS: Record<Exclude<VerdictCause, "none" | "server_link">, Fault> = {
  uplink_loss(figures, between) {
    figures.uplinkLossPercent = between(8, 30);
    figures.limited = { limitation: "bandwidth", seconds: between(1, 5) };
  },
  downlink_loss(figures, between) {
    figures.downlinkLossPercent = between(8, 30);
    figures.availableOutBps = between(80_000, 600_000);
  },
  uplink_narrow(figures, between) {
    figures.limited = { limitation: "bandwidth", seconds: between(3, 5) };
    figures.rttMs += between(0, 250);
  },
  downlink_narrow(figures, between) {
    figures.availableOutBps = between(40_000, 250_000);
    figures.heldBack = true;
    figures.rttMs += between(330, 500);
    figures.jitterMs += between(20, 60);
  },
  high_rtt(figures, between) {
    figures.rttMs = between(600, 1_200);
  },
  relayed(figures, between) {
    figures.rttMs = between(600, 1_200);
  },
  publisher_cpu(figures, between) {
    figures.limited = { limitation: "cpu", seconds: between(2, 5) };
  },
  missing_key(figures) {
    figures.missingKeysOf = ["ada"];
  },
  device(figures, between) {
    figures.deviceError = DEVICE_ERRORS[Math.floor(between(0, DEVICE_ERRORS.length))] ?? "AbortError";
  },
  reconnects(figures, between) {
    figures.reconnects = Math.floor(between(1, 3));
    figures.uplinkLossPercent += between(0, 10);
  },
  media_stalled(figures) {
    figures.stalled = true;
  },
  server_overload(figures, between) {
    figures.cpuPercent = between(92, 100);
    figures.uplinkLossPercent = between(5, 20);
    figures.downlinkLossPercent = between(5, 20);
    figures.jitterMs += between(30, 100);
  },
};
export const PROVOKED = Object.keys(FAULTS) as (keyof typeof FAULTS)[];

/** The same seed makes the same call. */
export function provokedCall(cause: "none" | keyof typeof FAULTS, seed: number): ProvokedCall {
  const random = seededRandom(seed);
  const between: Between = (least, most) => least + random() * (most - least);
  const length = Math.floor(between(12, 40));
  // Most of the call: what lasts a moment is not what people remember of it.
  const from = Math.floor(between(0, length * 0.3));
  const until = Math.ceil(between(length * 0.85, length));
  const samples = Array.from({ length }, (_, at) => {
    const figures = everyday(between);
    if (cause !== "none" && at >= from && at < until) FAULTS[cause](figures, between);
    return sampleOf(figures);
  });
  return { transport: cause === "relayed" ? "relay" : "udp", samples };
}

/** Disturbances that no participant notices: a lost packet now and then, a busy second, an encoder that waits for a moment. */
function everyday(between: Between): Figures {
  return {
    uplinkLossPercent: between(0, 1.5),
    downlinkLossPercent: between(0, 1.5),
    rttMs: between(15, 120),
    jitterMs: between(1, 12),
    availableOutBps: between(700_000, 4_000_000),
    heldBack: false,
    cpuPercent: between(3, 75),
    stalled: false,
    reconnects: 0,
    missingKeysOf: [],
  };
}

function sampleOf(figures: Figures): Sample {
  const { uplinkLossPercent, downlinkLossPercent, rttMs, jitterMs, availableOutBps, heldBack, ...rest } = figures;
  const packetLossPercent = Math.max(uplinkLossPercent, downlinkLossPercent);
  const quality = rest.stalled
    ? "lost"
    : qualityOf({ lossRatio: packetLossPercent / 100, rttMs, jitterMs, silentMs: 0 });
  return {
    ...rest,
    quality,
    stats: { uplinkLossPercent, downlinkLossPercent, packetLossPercent, rttMs, jitterMs, availableOutBps, heldBack },
  };
}

/** mulberry32 */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
