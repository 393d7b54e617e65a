/** The condition of one participant's connection: its quality for the room, its figures for reports, and stalls of its media. */
import type { TransportStats } from "../../protocol/media-node.ts";
import type { Quality } from "../../protocol/room-records.ts";

interface QualityFigures {
  /** 0 … 1, after retransmission. */
  lossRatio: number;
  rttMs: number;
  jitterMs: number;
  /** The time since the last packet of any kind. */
  silentMs: number;
}

const QUALITY_INTERVAL_MS = 2_000;
const STATS_INTERVAL_MS = 5_000;
const LOST_SILENCE_MS = 8_000;
/** A quality is entered below `from` and left above `back`, so that a score on the boundary does not flicker. */
const QUALITY_BOUNDS = [
  { quality: "poor", from: 60, back: 68 },
  { quality: "good", from: 82, back: 88 },
] as const;
const RANK: Record<Quality, number> = { lost: 0, poor: 0, good: 1, excellent: 2 };

/** The score is 0 … 100, after the E-model: delay hurts little up to 160 ms, loss hurts at once. */
export function qualityScore({ lossRatio, rttMs, jitterMs }: QualityFigures): number {
  const delayMs = rttMs / 2 + jitterMs * 2 + 20;
  const delay = delayMs <= 160 ? delayMs / 40 : 4 + (delayMs - 160) / 10;
  return Math.max(0, Math.min(100, 100 - delay - lossRatio * 100 * 4));
}

export function qualityOf(figures: QualityFigures, before?: Quality): Quality {
  if (figures.silentMs >= LOST_SILENCE_MS) return "lost";
  const score = qualityScore(figures);
  for (const [i, bound] of QUALITY_BOUNDS.entries()) {
    const wasHere = before !== undefined && RANK[before] <= i;
    if (score < (wasHere ? bound.back : bound.from)) return bound.quality;
  }
  return "excellent";
}

export class Health {
  quality: Quality | null = null;
  #qualityDueMs: number | null = null;
  #statsDueMs: number | null = null;
  /** The shortest round trip from the participant's current address. */
  #shortest: { address: string | null; rttMs: number } | null = null;

  /** Is true every two seconds: then `update` is due. */
  isQualityDue(nowMs: number): boolean {
    this.#qualityDueMs ??= nowMs + QUALITY_INTERVAL_MS;
    if (nowMs < this.#qualityDueMs) return false;
    this.#qualityDueMs = nowMs + QUALITY_INTERVAL_MS;
    return true;
  }

  /**
   * How long packets wait in the participant's uplink before they leave: the round-trip time minus the shortest one of this
   * path and minus the queue towards the participant. Null while there is no measurement.
   */
  uplinkWaitMs(address: string | null, rttMs: number | null, queueMs: number | null): number | null {
    if (rttMs === null) return null;
    if (this.#shortest?.address !== address || rttMs < this.#shortest.rttMs) this.#shortest = { address, rttMs };
    return Math.max(0, rttMs - this.#shortest.rttMs - (queueMs ?? 0));
  }

  /** Returns the new quality when it has changed. */
  update(stats: TransportStats, silentMs: number, isStalled: boolean): Quality | null {
    const figures = {
      lossRatio: (stats.packetLossPercent ?? 0) / 100,
      rttMs: stats.rttMs ?? 0,
      jitterMs: stats.jitterMs ?? 0,
      silentMs,
    };
    const quality = isStalled ? "lost" : qualityOf(figures, this.quality ?? undefined);
    if (quality === this.quality) return null;
    this.quality = quality;
    return quality;
  }

  isStatsDue(nowMs: number): boolean {
    this.#statsDueMs ??= nowMs + STATS_INTERVAL_MS;
    if (nowMs < this.#statsDueMs) return false;
    this.#statsDueMs = nowMs + STATS_INTERVAL_MS;
    return true;
  }
}

const PATIENCE_MS = 5_000;
/** A client that only listens may report as rarely as every seven seconds. */
const AUDIO_PATIENCE_MS = 10_000;
const MAX_PATIENCE_MS = 15_000;
/** Some clients report rarely whatever they receive, so patience is a multiple of the longest gap so far. */
const GAP_FACTOR = 2.5;
/** Firefox sends ICE checks every four to six seconds. */
const CHECKED_WITHIN_MS = 8_000;
/** A check this long after the last packet proves that the path is open; when both end together, the network is gone. */
const CHECKED_ALONE_MS = 1_500;
const STALL_INTERVAL_MS = 1_000;

export type ExpectedMedia = {
  /** The packets that the client has to send now, as far as the server knows. */
  due: "nothing" | "audio reports" | "media";
  /** Times of the last packet or report and of the last ICE check; 0 before the first. */
  mediaAtMs: number;
  checkedAtMs: number;
};

/**
 * Detects a connection whose ICE checks are answered while neither packets nor reports arrive although some are due.
 * Browsers get into this state after a change of network, and do not leave it by themselves.
 */
export class StallWatch {
  isStalled = false;
  #checkDueMs = 0;
  #dueSinceMs: number | null = null;
  #mediaAtMs = 0;
  #longestGapMs = 0;

  /** Is true once a second: then `update` is due. */
  isDue(nowMs: number): boolean {
    if (nowMs < this.#checkDueMs) return false;
    this.#checkDueMs = nowMs + STALL_INTERVAL_MS;
    return true;
  }

  /** Returns whether a stall has begun or ended. */
  update({ due, mediaAtMs, checkedAtMs }: ExpectedMedia, nowMs: number): "stalled" | "flows" | null {
    const arrived = mediaAtMs > this.#mediaAtMs;
    const gapMs = this.#mediaAtMs === 0 ? 0 : mediaAtMs - this.#mediaAtMs;
    this.#mediaAtMs = mediaAtMs;
    this.#dueSinceMs = due === "nothing" ? null : (this.#dueSinceMs ?? nowMs);
    if (this.isStalled) {
      if (!arrived && due !== "nothing") return null;
      this.isStalled = false;
      return "flows";
    }
    if (arrived && due !== "nothing") this.#longestGapMs = Math.max(this.#longestGapMs, gapMs);
    if (this.#dueSinceMs === null || nowMs - checkedAtMs > CHECKED_WITHIN_MS) return null;
    const minPatienceMs = due === "media" ? PATIENCE_MS : AUDIO_PATIENCE_MS;
    const patienceMs = Math.min(MAX_PATIENCE_MS, Math.max(minPatienceMs, this.#longestGapMs * GAP_FACTOR));
    const silentSinceMs = Math.max(this.#dueSinceMs, mediaAtMs);
    if (checkedAtMs - silentSinceMs < CHECKED_ALONE_MS || nowMs - silentSinceMs <= patienceMs) return null;
    this.isStalled = true;
    return "stalled";
  }

  /** Forgets what was learned of a connection that another one of the same client replaces. */
  restart(): void {
    this.#dueSinceMs = null;
    this.#mediaAtMs = 0;
    this.#longestGapMs = 0;
  }
}
