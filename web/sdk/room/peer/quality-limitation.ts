const INTERVAL_MS = 5_000;
/** At the start of a call every encoder is limited by the growing bandwidth estimate, which is not a problem. */
const RAMP_UP_MS = 15_000;
const MIN_SECONDS = 1;

export type LimitationReason = "cpu" | "bandwidth";
/** The `outbound-rtp` statistics of one stream; the durations are in seconds. */
export type OutboundStats = {
  id: string;
  type: string;
  kind?: string;
  timestamp: number;
  qualityLimitationDurations?: Partial<Record<LimitationReason, number>>;
};

/** Reads for how many seconds the encoders were limited since the last reading. */
export class QualityLimitationReader {
  readonly #before = new Map<string, { firstAt: number; durations: Partial<Record<LimitationReason, number>> }>();

  read(entries: Iterable<OutboundStats>): Record<LimitationReason, number> {
    const seconds = { cpu: 0, bandwidth: 0 };
    for (const { id, type, kind, timestamp, qualityLimitationDurations: durations } of entries) {
      if (type !== "outbound-rtp" || kind !== "video" || !durations) continue;
      const { firstAt = timestamp, durations: before = {} } = this.#before.get(id) ?? {};
      this.#before.set(id, { firstAt, durations });
      for (const reason of ["cpu", "bandwidth"] as const) {
        if (reason === "bandwidth" && timestamp - firstAt < RAMP_UP_MS) continue;
        // The simulcast layers of one video are limited at the same time, so their durations are not added up.
        seconds[reason] = Math.max(seconds[reason], (durations[reason] ?? 0) - (before[reason] ?? 0));
      }
    }
    return seconds;
  }
}

/** Reports periodically whether an encoder is limited; returns a function that stops it. */
export function watchQualityLimitation(
  pc: Pick<RTCPeerConnection, "getStats">,
  onLimited: (reason: LimitationReason, seconds: number) => void,
): () => void {
  const reader = new QualityLimitationReader();
  const timer = setInterval(async () => {
    const report = await pc.getStats().catch(() => null);
    if (!report) return;
    for (const [reason, seconds] of Object.entries(reader.read(report.values() as Iterable<OutboundStats>))) {
      if (seconds >= MIN_SECONDS) onLimited(reason as LimitationReason, Math.round(seconds * 10) / 10);
    }
  }, INTERVAL_MS);
  return () => clearInterval(timer);
}
