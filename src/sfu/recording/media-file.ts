import type { Span } from "../wire/frames/frame.ts";

/** What a track is, as far as its file has to say it. */
export type TrackFormat =
  | { codec: "opus"; channels: number }
  | { codec: "vp8" | "vp9"; width: number; height: number }
  /** `configuration`: the AV1 codec configuration record, from the sequence header. */
  | { codec: "av1"; width: number; height: number; configuration: Uint8Array | null }
  /** Parameter sets without start codes, as the first keyframe had them. */
  | { codec: "h264"; width: number; height: number; sps: Uint8Array; pps: Uint8Array };

/** Bytes to be written over what stands at `position`, once the file is complete. */
export type Patch = { position: number; bytes: Uint8Array };

/** A file of one track, as a value: frames in, bytes to append out, in pieces. It plays at every moment; `finish` makes it seekable. */
export interface MediaFile {
  readonly mimeType: string;
  begin(): Uint8Array;
  /**
   * Frames come in the order of their time. The bytes may be held back until a whole piece of the file is there; what is answered
   * is to be used before the next call.
   */
  add(frame: readonly Span[], timeMs: number, durationMs: number, keyframe: boolean): readonly Span[];
  /** `lastsMs`: silence may follow the last frame. */
  finish(lastsMs?: number): { tail: Uint8Array; patches: Patch[] };
}
