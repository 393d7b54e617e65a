/** What a recording is made of: whole encoded pictures, or packets of sound. */
export type EncodedFrame = {
  /** RTP timestamp, unwrapped, in units of the clock rate. */
  timestamp: number;
  keyframe: boolean;
  data: Uint8Array;
  /** Of a keyframe that tells; 0 when it does not. */
  width: number;
  height: number;
};

/** How the packets of one frame become the bytes that a file holds. */
export interface Depacketizer {
  /** The payloads of one frame, in order and complete; null when they make no frame that could be decoded. */
  assemble(
    payloads: readonly Uint8Array[],
  ): { data: Uint8Array; keyframe: boolean; width: number; height: number } | null;
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const part of parts) length += part.length;
  const out = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
