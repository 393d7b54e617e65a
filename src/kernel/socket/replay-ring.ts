/**
 * Frames for one reader: numbered without a gap, the last of them kept, so that a reader who comes back gets exactly what
 * it missed. Kept is what many readers share, without the number.
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
  /** Bodies, by their numbers. */
  const ring: string[] = [];
  let seq = startSeq;
  /** Number of the oldest frame kept; past `seq` when none is. */
  let oldest = startSeq + 1;
  let characters = 0;

  const bodyAt = (number: number) => ring[number % capacity] ?? "";

  function forgetOldest(): void {
    characters -= bodyAt(oldest).length;
    ring[oldest % capacity] = "";
    oldest += 1;
  }

  return {
    get seq() {
      return seq;
    },
    add(body) {
      if (seq + 1 - oldest >= capacity) forgetOldest();
      ring[++seq % capacity] = body;
      characters += body.length;
      while (characters > keptCharacters) forgetOldest();
      return numbered(body, seq);
    },
    since(lastSeq) {
      if (lastSeq > seq || lastSeq + 1 < oldest) return null;
      return Array.from({ length: seq - lastSeq }, (_, at) => {
        const number = lastSeq + 1 + at;
        return numbered(bodyAt(number), number);
      });
    },
  };
}

/** A frame for many readers is written out once; only the number differs from reader to reader. */
function numbered(body: string, seq: number): string {
  return `{"seq":${seq},${body.slice(1)}`;
}
