// Over all video codecs: does this packet begin a keyframe, and of what height?

import type { PacketRing } from "../rtp/packet-ring.ts";
import { RtpView } from "../rtp/rtp.ts";
import { av1Height, startsAv1Keyframe } from "./av1.ts";
import { h264Height, hasH264Parameters, startsH264Keyframe } from "./h264.ts";
import type { Vp8Descriptor } from "./vp8.ts";
import { startsVp9Keyframe, vp9Height } from "./vp9.ts";

export type VideoCodec = "vp8" | "vp9" | "h264" | "av1";
/** Audio is forwarded as it is, whatever it contains. */
export type MediaCodec = VideoCodec | "audio";

export function codecOf(mimeType: string): MediaCodec | undefined {
  const [kind, name] = mimeType.toLowerCase().split("/");
  if (kind === "audio") return "audio";
  if (kind !== "video") return undefined;
  return name === "vp8" || name === "vp9" || name === "h264" || name === "av1" ? name : undefined;
}

/** For VP8 the descriptor is parsed into `vp8`, for the forwarder's use. */
export function startsKeyframe(codec: MediaCodec, view: RtpView, vp8: Vp8Descriptor): boolean {
  const { data, payloadOffset, payloadLength } = view;
  switch (codec) {
    case "vp8":
      return vp8.parse(data, payloadOffset, payloadLength) && vp8.keyframe;
    case "vp9":
      return startsVp9Keyframe(data, payloadOffset, payloadLength);
    case "h264":
      return startsH264Keyframe(data, payloadOffset, payloadLength);
    case "av1":
      return startsAv1Keyframe(data, payloadOffset, payloadLength);
    case "audio":
      return payloadLength > 0;
  }
}

/** The height of the picture a keyframe's packet tells about; 0 when it does not. Ask only for `startsKeyframe`. */
export function keyframeHeight(codec: MediaCodec, view: RtpView, vp8: Vp8Descriptor): number {
  const { data, payloadOffset, payloadLength } = view;
  switch (codec) {
    case "vp8":
      return vp8.height;
    case "vp9":
      return vp9Height(data, payloadOffset, payloadLength);
    case "h264":
      return h264Height(data, payloadOffset, payloadLength);
    case "av1":
      return av1Height(data, payloadOffset, payloadLength);
    case "audio":
      return 0;
  }
}

/**
 * Where a keyframe begins, among its packets. Of most codecs the packet says it; an H.264 picture may have its parameter sets
 * in packets of their own and be cut into slices, each of which looks like a beginning. Who begins at a later one of them
 * cannot decode the picture.
 */

/** Delimiters, messages and slices that may stand before a slice; more make no picture that is decoded in time. */
const MAX_LOOK_BACK = 32;

export class KeyframeStart {
  readonly #earlier = new RtpView();

  /** `first`: the number the stream began with. The packet is in the ring. */
  isAt(
    codec: MediaCodec,
    view: RtpView,
    extended: number,
    { ring, first, vp8 }: { ring: PacketRing; first: number; vp8: Vp8Descriptor },
  ): boolean {
    if (!startsKeyframe(codec, view, vp8)) return false;
    if (codec !== "h264" || hasH264Parameters(view.data, view.payloadOffset, view.payloadLength)) return true;
    return this.#isFirstOfPicture(view, extended, ring, first);
  }

  /** A slice begins the picture when everything before it is known, and neither a slice nor a parameter set of the same. */
  #isFirstOfPicture(view: RtpView, extended: number, ring: PacketRing, first: number): boolean {
    const earlier = this.#earlier;
    for (let at = extended - 1; at > extended - MAX_LOOK_BACK; at--) {
      if (at < first) return true;
      if (!ring.peek(at, earlier)) return false;
      if (earlier.timestamp !== view.timestamp) return true;
      if (startsH264Keyframe(earlier.data, earlier.payloadOffset, earlier.payloadLength)) return false;
    }
    return false;
  }
}
