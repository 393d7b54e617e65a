/**
 * Frames for one reader: numbered without a gap, the last of them kept as they were sent, so that a reader who comes
 * back gets exactly what it missed.
 */
export type Outbox = {
  /** Number of the last frame; the first has the next one. */
  readonly seq: number;
  /** Numbers a frame and answers the text to send. */
  add(body: string): string;
  /** Frames after `lastSeq` in order; null when some of them are gone, or `lastSeq` was never reached. */
  since(lastSeq: number): string[] | null;
};

export function createOutbox(capacity: number, startSeq = 0): Outbox {
  const ring: string[] = [];
  let seq = startSeq;
  return {
    get seq() {
      return seq;
    },
    add(body) {
      const frame = numbered(body, ++seq);
      ring[seq % capacity] = frame;
      return frame;
    },
    since(lastSeq) {
      if (lastSeq > seq || lastSeq < startSeq || seq - lastSeq > capacity) return null;
      const frames: string[] = [];
      for (let at = lastSeq + 1; at <= seq; at++) frames.push(ring[at % capacity] ?? "");
      return frames;
    },
  };
}

/** A frame for many readers is written out once; only the number differs from reader to reader. */
function numbered(body: string, seq: number): string {
  return `{"seq":${seq},${body.slice(1)}`;
}
