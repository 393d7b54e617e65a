import { type PushBody, RESUME_RING_FRAMES } from "../protocol/signaling.ts";

/**
 * The pushes of one session: numbered without a gap, the last 256 kept as they were sent, so that a client that comes
 * back gets exactly what it missed.
 */
export type Outbox = {
  /** Number of the last push; 0 before the first. */
  readonly seq: number;
  /** Numbers a push and answers the frame to send. */
  add(body: string): string;
  /** Frames after `lastSeq` in order; null when some of them are gone, or `lastSeq` was never reached. */
  since(lastSeq: number): string[] | null;
};

export function createOutbox(capacity = RESUME_RING_FRAMES): Outbox {
  const ring: string[] = [];
  let seq = 0;
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
      if (lastSeq > seq || seq - lastSeq > capacity) return null;
      const frames: string[] = [];
      for (let at = lastSeq + 1; at <= seq; at++) frames.push(ring[at % capacity] ?? "");
      return frames;
    },
  };
}

/** A push for a whole room is written out once; only the number differs from reader to reader. */
export function pushText(body: PushBody): string {
  return JSON.stringify(body);
}

function numbered(body: string, seq: number): string {
  return `{"seq":${seq},${body.slice(1)}`;
}
