import { Av1Frames } from "../wire/frames/av1-frames.ts";
import type { Depacketizer, EncodedFrame, Span } from "../wire/frames/frame.ts";
import { H264Frames } from "../wire/frames/h264-frames.ts";
import { OpusFrames } from "../wire/frames/opus-frames.ts";
import { Vp8Frames, Vp9Frames } from "../wire/frames/vpx-frames.ts";

export type TrackFormat =
  | { codec: "opus"; channels: number }
  | { codec: "vp8" | "vp9"; width: number; height: number }
  /** `configuration`: the AV1 codec configuration record, from the sequence header. */
  | { codec: "av1"; width: number; height: number; configuration: Uint8Array | null }
  /** Parameter sets of the first keyframe, without start codes. */
  | { codec: "h264"; width: number; height: number; sps: Uint8Array; pps: Uint8Array };

/** Bytes that overwrite those at `position` once the file is complete. */
export type Patch = { position: number; bytes: Uint8Array };

/** The bytes of a file of one track: frames in, bytes to append out. The file plays at every moment; `finish` makes it seekable. */
export interface MediaFile {
  readonly mimeType: string;
  begin(): Uint8Array;
  /** Takes frames in order of time. Bytes may be held back until a fragment is complete; callers use them before the next call. */
  add(frame: readonly Span[], timeMs: number, durationMs: number, keyframe: boolean): readonly Span[];
  /** `lastsMs` is the duration of the file, including silence after the last frame. */
  finish(lastsMs?: number): { tail: Uint8Array; patches: Patch[] };
}

/** Returns null for codecs that are not recorded (G.711). */
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

/** The format of a track by its first keyframe. */
export function formatOf(frames: Depacketizer, { width, height }: EncodedFrame): TrackFormat | null {
  if (frames instanceof OpusFrames) return { codec: "opus", channels: 2 };
  if (frames instanceof Vp8Frames) return { codec: "vp8", width, height };
  if (frames instanceof Vp9Frames) return { codec: "vp9", width, height };
  if (frames instanceof Av1Frames) return { codec: "av1", width, height, configuration: frames.configuration() };
  if (frames instanceof H264Frames) return { codec: "h264", width, height, sps: frames.sps, pps: frames.pps };
  return null;
}
