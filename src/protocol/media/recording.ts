/** Recording requests to media nodes, and their events. */
import type { TrackKind, TrackSource } from "../room-records.ts";

export type RecordingRef = { roomId: string; recordingId: string };

export type StartRecording = RecordingRef & {
  /** The directory for the files; created if missing. */
  directory: string;
  /** The server time on which the offsets of the files are based. */
  startedAtMs: number;
  audioOnly: boolean;
  /** Also sends every partial segment as `recordingPart`, for a live stream. */
  parts?: boolean;
  /** With `parts`: frames in a codec that HLS does not support are sent unchanged, to be transcoded. */
  feed?: boolean;
  /** With `parts`: the recording runs already, and its live stream has everything that was sent before. */
  continues?: boolean;
};

/** The form of all file names. Otherwise a node could report a path outside of the recording's folder. */
export const RECORDED_FILE_NAME = /^[A-Za-z0-9_-]{1,128}\.(?:webm|mp4)$/;

export const RECORDING_CODECS = ["opus", "vp8", "vp9", "av1", "h264"] as const;
type RecordingCodec = (typeof RECORDING_CODECS)[number];

/** One file of a recording: a published track until its end, or until its codec changed. */
export type RecordedFile = {
  fileId: string;
  /** The file name in the recording's directory. */
  fileName: string;
  identity: string;
  trackId: string;
  kind: TrackKind;
  source: TrackSource;
  codec: RecordingCodec;
  mimeType: string;
  /** Exact once the publisher has sent a sender report (RTCP), after some seconds. */
  offsetMs: number;
  durationMs: number;
  bytes: number;
  /** The size of the first frame; null for audio. */
  width: number | null;
  height: number | null;
};

/** A partial segment (HLS) of a recorded track, on the recording's clock. */
export type RecordedPart = {
  fileId: string;
  identity: string;
  trackId: string;
  kind: TrackKind;
  source: TrackSource;
  codecs: string;
  width: number | null;
  height: number | null;
  /** The initialization segment in base64; only with the track's first partial segment. */
  head: string | null;
  /** The `moof` and `mdat` boxes in base64. */
  data: string;
  atMs: number;
  durationMs: number;
  /** A player can start with this partial segment. */
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
  /** The track's first frame, preceded by the header of the file. */
  begins: boolean;
  /** Base64. */
  data: string;
};
