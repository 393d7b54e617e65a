import type { Layer, TrackSource } from "../../../../src/protocol/room-records.ts";
import type { VideoCodec } from "./codecs.ts";

/** A copy of the protocol's constant, because importing that would bundle the whole schema library. */
const LAYER_RIDS: Record<Layer, string> = { low: "q", medium: "h", high: "f" };

/** Three layers for a camera and two for a screen, whose text must stay readable, from low to high. */
export function videoEncodings(
  source: TrackSource,
  height: number,
  { simulcast, codec }: { simulcast: boolean; codec?: VideoCodec },
): RTCRtpEncodingParameters[] {
  // Otherwise Chromium combines all layers of these codecs into one SVC stream, and the server receives only `q`.
  const separate = codec === "VP9" || codec === "AV1" ? { scalabilityMode: "L1T1" } : {};
  const encodings = simulcast ? simulcastEncodings(source, height) : [singleEncoding(source, height)];
  return encodings.map((encoding) => ({ ...encoding, ...separate }));
}

function singleEncoding(source: TrackSource, height: number): RTCRtpEncodingParameters {
  return { maxBitrate: topBitrate(source, height), maxFramerate: source === "screenShare" ? 15 : 30 };
}

function simulcastEncodings(source: TrackSource, height: number): RTCRtpEncodingParameters[] {
  const top = topBitrate(source, height);
  if (source === "screenShare") {
    return [
      { rid: "q", scaleResolutionDownBy: 2, maxBitrate: 400_000, maxFramerate: 5 },
      { rid: "f", maxBitrate: top, maxFramerate: 15 },
    ];
  }
  return [
    { rid: "q", scaleResolutionDownBy: 4, maxBitrate: 150_000 },
    { rid: "h", scaleResolutionDownBy: 2, maxBitrate: Math.min(500_000, top) },
    { rid: "f", maxBitrate: top },
  ];
}

function topBitrate(source: TrackSource, height: number): number {
  if (source === "screenShare") return 2_500_000;
  if (height >= 1080) return 3_000_000;
  if (height >= 720) return 1_700_000;
  return height >= 540 ? 1_000_000 : 600_000;
}

/** Deactivates the layers without subscribers to save CPU and bandwidth; returns whether anything has changed. */
export function activateOnly(encodings: RTCRtpEncodingParameters[], layers: readonly Layer[]): boolean {
  const wanted = new Set<string>(layers.map((layer) => LAYER_RIDS[layer]));
  let changed = false;
  for (const encoding of encodings) {
    const active = encoding.rid === undefined ? layers.length > 0 : wanted.has(encoding.rid);
    changed ||= encoding.active !== active;
    encoding.active = active;
  }
  return changed;
}
