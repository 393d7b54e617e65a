const EVERY_MS = 5_000;
/** While a call begins, every encoder waits for the estimate of its way to grow. */
const GROWING_MS = 15_000;
const LEAST_SECONDS = 1;

export type LimitedBy = "cpu" | "bandwidth";
/** Of one encoded stream, as `getStats` tells it; durations are seconds since it began. */
export type EncoderEntry = {
  id: string;
  type: string;
  kind?: string;
  timestamp: number;
  qualityLimitationDurations?: Partial<Record<LimitedBy, number>>;
};

/** What the encoders of this client were held back by since the last look, in seconds. */
export class LimitationReader {
  readonly #before = new Map<string, { firstAt: number; durations: Partial<Record<LimitedBy, number>> }>();

  read(entries: Iterable<EncoderEntry>): Record<LimitedBy, number> {
    const seconds = { cpu: 0, bandwidth: 0 };
    for (const { id, type, kind, timestamp, qualityLimitationDurations: durations } of entries) {
      if (type !== "outbound-rtp" || kind !== "video" || !durations) continue;
      const { firstAt = timestamp, durations: before = {} } = this.#before.get(id) ?? {};
      this.#before.set(id, { firstAt, durations });
      for (const reason of ["cpu", "bandwidth"] as const) {
        if (reason === "bandwidth" && timestamp - firstAt < GROWING_MS) continue;
        // The sizes of one picture are held back together: they are not added up.
        seconds[reason] = Math.max(seconds[reason], (durations[reason] ?? 0) - (before[reason] ?? 0));
      }
    }
    return seconds;
  }
}

/** Looks now and then whether an encoder is held back, and tells it; returns what stops it. */
export function watchEncoders(
  pc: Pick<RTCPeerConnection, "getStats">,
  onLimited: (reason: LimitedBy, seconds: number) => void,
): () => void {
  const reader = new LimitationReader();
  const timer = setInterval(async () => {
    const report = await pc.getStats().catch(() => null);
    if (!report) return;
    for (const [reason, seconds] of Object.entries(reader.read(report.values() as Iterable<EncoderEntry>))) {
      if (seconds >= LEAST_SECONDS) onLimited(reason as LimitedBy, Math.round(seconds * 10) / 10);
    }
  }, EVERY_MS);
  return () => clearInterval(timer);
}
