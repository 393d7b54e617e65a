/**
 * Frames for one reader: numbered without a gap, the last of them kept as they were sent, so that a reader who comes
 * back gets exactly what it missed.
 */
export type ReplayRing = {
  /** Number of the last frame; the first has the next one. */
  readonly seq: number;
  /** Numbers a frame and answers the text to send. */
  add(body: string): string;
  /** Frames after `lastSeq` in order; null when some of them are gone, or `lastSeq` was never reached. */
  since(lastSeq: number): string[] | null;
};

type ReplayRingOptions = {
  startSeq?: number;
  /** Some frames carry data of their senders: many readers of many large ones must not fill the memory. */
  keptCharacters?: number;
};

export function createReplayRing(capacity: number, options: ReplayRingOptions = {}): ReplayRing {
  const { startSeq = 0, keptCharacters = Number.POSITIVE_INFINITY } = options;
  const ring: string[] = [];
  let seq = startSeq;
  /** Number of the oldest frame kept; past `seq` when none is. */
  let oldest = startSeq + 1;
  let characters = 0;

  const frameAt = (number: number) => ring[number % capacity] ?? "";

  function forgetOldest(): void {
    characters -= frameAt(oldest).length;
    ring[oldest % capacity] = "";
    oldest += 1;
  }

  return {
    get seq() {
      return seq;
    },
    add(body) {
      if (seq + 1 - oldest >= capacity) forgetOldest();
      const frame = numbered(body, ++seq);
      ring[seq % capacity] = frame;
      characters += frame.length;
      while (characters > keptCharacters) forgetOldest();
      return frame;
    },
    since(lastSeq) {
      if (lastSeq > seq || lastSeq + 1 < oldest) return null;
      return Array.from({ length: seq - lastSeq }, (_, at) => frameAt(lastSeq + 1 + at));
    },
  };
}

/** A frame for many readers is written out once; only the number differs from reader to reader. */
function numbered(body: string, seq: number): string {
  return `{"seq":${seq},${body.slice(1)}`;
}
