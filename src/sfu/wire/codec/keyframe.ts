// Keyframe starts and heights, for all codecs.

import type { PacketRing } from "../rtp/packet-ring.ts";
import { RtpView } from "../rtp/rtp.ts";
import { av1Height, startsAv1Keyframe } from "./av1.ts";
import { h264Height, hasH264Parameters, startsH264Keyframe } from "./h264.ts";
import type { Vp8Descriptor } from "./vp8.ts";
import { startsVp9Keyframe, vp9Height } from "./vp9.ts";

type VideoCodec = "vp8" | "vp9" | "h264" | "av1";
/** Audio is forwarded whatever its codec. */
export type MediaCodec = VideoCodec | "audio";

/** A VP8 descriptor is parsed into `vp8`, which the forwarder uses afterwards. */
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

/** The frame height in a packet for which `startsKeyframe` is true; 0 when the packet does not have it. */
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

/** How many packets of the same frame may precede an H.264 slice: delimiters, messages and other slices. */
const MAX_LOOK_BACK = 32;

/**
 * Finds the first packet of a keyframe. With most codecs the packet itself shows it; an H.264 frame may have its parameter
 * sets in separate packets and several slices, each of which looks like a start. A subscriber that starts with a later slice
 * cannot decode the frame.
 */
export class KeyframeStart {
  readonly #earlier = new RtpView();

  /** Whether this packet, which is in the ring already, starts a keyframe. `first` is the stream's first sequence number. */
  isAt(
    codec: MediaCodec,
    view: RtpView,
    extended: number,
    { ring, first, vp8 }: { ring: PacketRing; first: number; vp8: Vp8Descriptor },
  ): boolean {
    if (!startsKeyframe(codec, view, vp8)) return false;
    if (codec !== "h264" || hasH264Parameters(view.data, view.payloadOffset, view.payloadLength)) return true;
    return this.#isFirstOfFrame(view, extended, ring, first);
  }

  /** A slice starts the frame when all packets before it are known and none is a slice or parameter set of the same frame. */
  #isFirstOfFrame(view: RtpView, extended: number, ring: PacketRing, first: number): boolean {
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
