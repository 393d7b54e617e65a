/**
 * The frames to one client, with consecutive sequence numbers. The last frames are kept, so that a client that
 * reconnects gets exactly those it missed. They are stored without sequence numbers, because many clients share the
 * same text.
 */
export type ReplayRing = {
  readonly seq: number;
  add(body: string): string;
  /** The frames after `lastSeq`; null when some of them are no longer kept, or `lastSeq` was never reached. */
  since(lastSeq: number): string[] | null;
};

type ReplayRingOptions = {
  startSeq?: number;
  /** The limit in characters. Frames contain data of their senders, so many clients with many large frames could fill the memory. */
  keptCharacters?: number;
};

export function createReplayRing(capacity: number, options: ReplayRingOptions = {}): ReplayRing {
  const { startSeq = 0, keptCharacters = Number.POSITIVE_INFINITY } = options;
  /** Frame bodies by sequence number modulo the capacity. */
  const ring: string[] = [];
  let seq = startSeq;
  /** The sequence number of the oldest frame that is kept; `seq + 1` when there is none. */
  let oldest = startSeq + 1;
  let characters = 0;

  const bodyAt = (number: number) => ring[number % capacity] ?? "";

  function dropOldest(): void {
    characters -= bodyAt(oldest).length;
    ring[oldest % capacity] = "";
    oldest += 1;
  }

  return {
    get seq() {
      return seq;
    },
    add(body) {
      if (seq + 1 - oldest >= capacity) dropOldest();
      ring[++seq % capacity] = body;
      characters += body.length;
      while (characters > keptCharacters) dropOldest();
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

/** A frame for many clients is serialized once; only the sequence number differs. */
function numbered(body: string, seq: number): string {
  return `{"seq":${seq},${body.slice(1)}`;
}
