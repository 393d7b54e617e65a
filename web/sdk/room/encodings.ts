import type { Layer, TrackSource } from "../../../src/protocol/room-records.ts";

const RID_OF: Record<Layer, string> = { low: "q", medium: "h", high: "f" };

/** Three layers for a camera, two for a screen (its text must stay readable), from low to high. */
export function videoEncodings(source: TrackSource, height: number, simulcast: boolean): RTCRtpEncodingParameters[] {
  const screen = source === "screenShare";
  const top = screen ? 2_500_000 : bitrateFor(height);
  if (!simulcast) return [{ maxBitrate: top, maxFramerate: screen ? 15 : 30 }];
  if (screen) {
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

function bitrateFor(height: number): number {
  if (height >= 1080) return 3_000_000;
  if (height >= 720) return 1_700_000;
  return height >= 540 ? 1_000_000 : 600_000;
}

/** Nobody watches the other layers: do not spend the CPU on them. The lowest stays, so that a newcomer sees at once. */
export async function encodeOnly(sender: RTCRtpSender, layers: readonly Layer[]): Promise<void> {
  const parameters = sender.getParameters();
  const wanted = new Set(layers.map((layer) => RID_OF[layer]));
  let changed = false;
  for (const encoding of parameters.encodings) {
    if (encoding.rid === undefined) continue;
    const active = wanted.has(encoding.rid);
    changed ||= encoding.active !== active;
    encoding.active = active;
  }
  if (changed) await sender.setParameters(parameters);
}
