/** How each participant's connection is doing: a word for the room, figures for whoever looks into it later. */
import type { TransportStats } from "../../protocol/media-node.ts";
import type { Quality } from "../../protocol/room-records.ts";
import { qualityOf } from "../bandwidth/quality.ts";

const QUALITY_INTERVAL_MS = 2_000;
const STATS_INTERVAL_MS = 5_000;

export class Health {
  quality: Quality | null = null;
  #qualityDueMs: number | null = null;
  #statsDueMs: number | null = null;
  /** The shortest round trip over the network that it is on. */
  #shortest: { address: string | null; rttMs: number } | null = null;

  /** True every two seconds: then `update` is due. */
  isQualityDue(nowMs: number): boolean {
    this.#qualityDueMs ??= nowMs + QUALITY_INTERVAL_MS;
    if (nowMs < this.#qualityDueMs) return false;
    this.#qualityDueMs = nowMs + QUALITY_INTERVAL_MS;
    return true;
  }

  /**
   * How long packets from the participant wait before they leave: what is left of the round trip without the way itself and
   * the queue towards the participant. Null while nothing is known.
   */
  uplinkWaitMs(address: string | null, rttMs: number | null, queueMs: number | null): number | null {
    if (rttMs === null) return null;
    if (this.#shortest?.address !== address || rttMs < this.#shortest.rttMs) this.#shortest = { address, rttMs };
    return Math.max(0, rttMs - this.#shortest.rttMs - (queueMs ?? 0));
  }

  /** The new quality when it has changed. */
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
