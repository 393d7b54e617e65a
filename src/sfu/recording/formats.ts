import { Av1Frames } from "../wire/frames/av1-frames.ts";
import type { Depacketizer, EncodedFrame } from "../wire/frames/frame.ts";
import { H264Frames } from "../wire/frames/h264-frames.ts";
import { OpusFrames } from "../wire/frames/opus-frames.ts";
import { Vp8Frames, Vp9Frames } from "../wire/frames/vpx-frames.ts";
import type { TrackFormat } from "./media-file.ts";

/** Null for what no file of ours holds (G.711). */
export function framesOf(codec: string | undefined): Depacketizer | null {
  switch (codec) {
    case "opus":
    case "red":
      return new OpusFrames();
    case "VP8":
      return new Vp8Frames();
    case "VP9":
      return new Vp9Frames();
    case "AV1":
      return new Av1Frames();
    case "H264":
      return new H264Frames();
    default:
      return null;
  }
}

/** What a file says of itself, once a keyframe has told. */
export function formatOf(frames: Depacketizer, { width, height }: EncodedFrame): TrackFormat | null {
  if (frames instanceof OpusFrames) return { codec: "opus", channels: 2 };
  if (frames instanceof Vp8Frames) return { codec: "vp8", width, height };
  if (frames instanceof Vp9Frames) return { codec: "vp9", width, height };
  if (frames instanceof Av1Frames) return { codec: "av1", width, height, configuration: frames.configuration() };
  if (frames instanceof H264Frames) return { codec: "h264", width, height, sps: frames.sps, pps: frames.pps };
  return null;
}
