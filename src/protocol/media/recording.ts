/** Recording requests to media nodes, and their events. */
import type { TrackKind, TrackSource } from "../room-records.ts";

export type RecordingRef = { roomId: string; recordingId: string };

export type StartRecording = RecordingRef & {
  /** The directory for the files; created if missing. */
  directory: string;
  /** The server time to which the files' offsets are relative. */
  startedAtMs: number;
  audioOnly: boolean;
  /** Also sends every part as `recordingPart`, for a live stream. */
  parts?: boolean;
  /** With `parts`: frames in a codec that HLS does not support are sent as they are, to be transcoded. */
  feed?: boolean;
};

/** The form of all file names. A node could otherwise name a path outside of the recording's folder. */
export const RECORDED_FILE_NAME = /^[A-Za-z0-9_-]{1,128}\.(?:webm|mp4)$/;

export const RECORDING_CODECS = ["opus", "vp8", "vp9", "av1", "h264"] as const;
type RecordingCodec = (typeof RECORDING_CODECS)[number];

/** One file of a recording: a published track until its end, or until its codec changed. */
export type RecordedFile = {
  fileId: string;
  /** In the recording's directory. */
  fileName: string;
  identity: string;
  trackId: string;
  kind: TrackKind;
  source: TrackSource;
  codec: RecordingCodec;
  mimeType: string;
  /** Exact once the publisher has sent its clock (RTCP), after some seconds. */
  offsetMs: number;
  durationMs: number;
  bytes: number;
  /** The size of the first frame; null for audio. */
  width: number | null;
  height: number | null;
};

/** An HLS part of a recorded track, on the recording's clock. */
export type RecordedPart = {
  fileId: string;
  identity: string;
  trackId: string;
  kind: TrackKind;
  source: TrackSource;
  codecs: string;
  width: number | null;
  height: number | null;
  /** Base64: the initialization segment; only with the track's first part. */
  head: string | null;
  /** Base64: `moof` and `mdat`. */
  data: string;
  atMs: number;
  durationMs: number;
  /** A player can start with this part. */
  independent: boolean;
  beginsSegment: boolean;
  endsSegment: boolean;
};

/** The next frame of a recorded track, as part of an endless WebM file on the recording's clock. */
export type RecordedFeed = {
  fileId: string;
  identity: string;
  trackId: string;
  source: TrackSource;
  width: number | null;
  height: number | null;
  atMs: number;
  keyframe: boolean;
  /** The track's first frame, with the header of the file before it. */
  begins: boolean;
  /** Base64. */
  data: string;
};
