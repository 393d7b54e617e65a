import type { Depacketizer, Span } from "./frame.ts";

/** Every Opus packet is a frame that can be decoded by itself. */
export class OpusFrames implements Depacketizer {
  assemble(payloads: Span[]): ReturnType<Depacketizer["assemble"]> {
    return payloads.length > 0 ? { spans: payloads, keyframe: true, width: 0, height: 0 } : null;
  }
}

/** The duration of a packet (RFC 6716 §3.1). */
export function opusDurationMs([packet]: readonly Span[]): number {
  if (!packet) return 0;
  const { data, at } = packet;
  const toc = data[at] ?? 0;
  const config = toc >> 3;
  const frameMs =
    config < 12
      ? ([10, 20, 40, 60][config & 3] as number)
      : config < 16
        ? config & 1
          ? 20
          : 10
        : ([2.5, 5, 10, 20][config & 3] as number);
  const code = toc & 3;
  if (code === 0) return frameMs;
  return frameMs * (code === 3 ? (data[at + 1] ?? 1) & 0x3f : 2);
}

/** The identification header of an Opus stream in a file (RFC 7845 §5.1), with a pre-skip of 0. */
export function opusHead(channels: number): Uint8Array {
  const out = new Uint8Array(19);
  out.set(new TextEncoder().encode("OpusHead"));
  out[8] = 1;
  out[9] = channels;
  new DataView(out.buffer).setUint32(12, 48_000, true);
  return out;
}
