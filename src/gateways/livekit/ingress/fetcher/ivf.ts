import type { VideoFrame } from "../../../../rtc-client/participant/video-source.ts";

const FRAME_HEADER_BYTES = 12;
const HEADER_LENGTH_AT = 6;

/** The VP8 frames of an IVF stream, as they arrive. */
export async function* ivfFrames(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<VideoFrame, void, void> {
  let waiting = Buffer.alloc(0);
  let ticksPerSecond = 0;
  for await (const chunk of chunks) {
    waiting = Buffer.concat([waiting, chunk]);
    if (ticksPerSecond === 0) {
      if (waiting.length < 32) continue;
      ticksPerSecond = waiting.readUInt32LE(16) / waiting.readUInt32LE(20);
      waiting = waiting.subarray(waiting.readUInt16LE(HEADER_LENGTH_AT));
    }
    while (waiting.length >= FRAME_HEADER_BYTES) {
      const end = FRAME_HEADER_BYTES + waiting.readUInt32LE(0);
      if (waiting.length < end) break;
      const data = new Uint8Array(waiting.subarray(FRAME_HEADER_BYTES, end));
      const timestampMs = (Number(waiting.readBigUInt64LE(4)) * 1_000) / ticksPerSecond;
      waiting = waiting.subarray(end);
      // RFC 6386 §9.1: the first bit of a VP8 frame is 0 in a keyframe.
      yield { data, keyframe: ((data[0] ?? 1) & 1) === 0, timestampMs };
    }
  }
}

/** The stream as whole 16-bit samples of two channels. */
export async function* stereoSamples(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Int16Array, void, void> {
  let rest = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk]);
    const whole = bytes.length - (bytes.length % 4);
    rest = bytes.subarray(whole);
    yield new Int16Array(new Uint8Array(bytes.subarray(0, whole)).buffer);
  }
}

/** Waits for the first value, and returns a generator of all values; null if the source ends without one. */
export async function begun<Value>(source: AsyncGenerator<Value, void, void>) {
  const first = await source.next();
  if (first.done) return null;
  return (async function* () {
    yield first.value;
    yield* source;
  })();
}
