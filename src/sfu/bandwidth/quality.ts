// How a connection feels, in one word, from loss, round trip and jitter.

export type Quality = "excellent" | "good" | "poor" | "lost";

export interface QualityFigures {
  /** 0 … 1, after what retransmission could repair. */
  lossRatio: number;
  rttMs: number;
  jitterMs: number;
  /** Since the last packet of any kind. */
  silentMs: number;
}

const LOST_SILENCE_MS = 8_000;
/** Enter at `from`, leave for the better at `back`: a value on the edge must not flicker. */
const BOUNDS = [
  { quality: "poor", from: 60, back: 68 },
  { quality: "good", from: 82, back: 88 },
] as const;

/** 0 … 100, after the E-model: delay hurts little up to 160 ms, loss hurts at once. */
export function qualityScore({ lossRatio, rttMs, jitterMs }: QualityFigures): number {
  const delayMs = rttMs / 2 + jitterMs * 2 + 20;
  const delay = delayMs <= 160 ? delayMs / 40 : 4 + (delayMs - 160) / 10;
  const score = 100 - delay - lossRatio * 100 * 4;
  return Math.max(0, Math.min(100, score));
}

export function qualityOf(figures: QualityFigures, before?: Quality): Quality {
  if (figures.silentMs >= LOST_SILENCE_MS) return "lost";
  const score = qualityScore(figures);
  const rank: Record<Quality, number> = { lost: 0, poor: 0, good: 1, excellent: 2 };
  for (const [i, bound] of BOUNDS.entries()) {
    const wasHere = before !== undefined && rank[before] <= i;
    if (score < (wasHere ? bound.back : bound.from)) return bound.quality;
  }
  return "excellent";
}
