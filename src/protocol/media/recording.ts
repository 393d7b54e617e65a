/** What a media node is asked to record, and what it tells of it. */
import type { TrackKind, TrackSource } from "../room-records.ts";

export type RecordingRef = { roomId: string; recordingId: string };

export type StartRecording = RecordingRef & {
  /** Where the node puts the files; made when it is not there. */
  directory: string;
  /** Server time from which the files' offsets count. */
  startedAtMs: number;
  audioOnly: boolean;
  /** Also told piece by piece, for a live stream: every `recordingPart`. */
  parts?: boolean;
  /** With `parts`: pictures of a codec that no live stream carries are told as they are, to be encoded anew. */
  feed?: boolean;
};

/** As every recorder names its files. Whatever else a node calls one could lead out of the recording's folder. */
export const RECORDED_FILE_NAME = /^[A-Za-z0-9_-]{1,128}\.(?:webm|mp4)$/;

export const RECORDING_CODECS = ["opus", "vp8", "vp9", "av1", "h264"] as const;
type RecordingCodec = (typeof RECORDING_CODECS)[number];

/** One file of a recording: a published track for as long as it lasted, or until its codec changed. */
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
  /** Exact once the publisher has told its clock, which takes it some seconds. */
  offsetMs: number;
  durationMs: number;
  bytes: number;
  /** Of the first picture; null for sound. */
  width: number | null;
  height: number | null;
};

/** A piece of a recorded track as a live stream sends it, on the recording's clock. */
export type RecordedPart = {
  fileId: string;
  identity: string;
  trackId: string;
  kind: TrackKind;
  source: TrackSource;
  codecs: string;
  width: number | null;
  height: number | null;
  /** Base64: what a player reads before the track's first part, which alone has it. */
  head: string | null;
  /** Base64: `moof` and `mdat`. */
  data: string;
  atMs: number;
  durationMs: number;
  /** A player can begin here. */
  independent: boolean;
  beginsSegment: boolean;
  endsSegment: boolean;
};

/** The next piece of a recorded track as a WebM that is never ended, on the recording's clock: one picture. */
export type RecordedFeed = {
  fileId: string;
  identity: string;
  trackId: string;
  source: TrackSource;
  width: number | null;
  height: number | null;
  atMs: number;
  keyframe: boolean;
  /** The track's first, with the head of the file before it. */
  begins: boolean;
  /** Base64. */
  data: string;
};
