// Over all video codecs: does this packet begin a keyframe, and of what height?

import type { RtpView } from "../rtp/rtp.ts";
import { startsAv1Keyframe } from "./av1.ts";
import { av1Height } from "./av1-size.ts";
import { startsH264Keyframe } from "./h264.ts";
import { h264Height } from "./h264-size.ts";
import type { Vp8Descriptor } from "./vp8.ts";
import { startsVp9Keyframe } from "./vp9.ts";
import { vp9Height } from "./vp9-size.ts";

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
