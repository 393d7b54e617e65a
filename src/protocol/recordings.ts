/** Recordings in the API, in webhooks and on the replay page. */
import { type Static, Type } from "@sinclair/typebox";
import { RECORDING_STATUSES } from "./enums.ts";
import { literals } from "./literals.ts";

const Text = Type.String();
const Whole = Type.Integer();
const nullable = <T extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>>(type: T) =>
  Type.Union([type, Type.Null()]);

export const RecordingFile = Type.Object({
  id: Text,
  status: Type.Unsafe<"READY" | "PENDING" | "LOST">({
    ...literals(["READY", "PENDING", "LOST"]),
    description: "`PENDING`: still on the media node that records it; `LOST`: no longer on that node",
  }),
  identity: Text,
  trackId: Text,
  kind: Text,
  source: Text,
  codec: Text,
  mimeType: Text,
  offsetMs: Type.Integer({ description: "Start of the file, relative to the start of the recording" }),
  durationMs: Whole,
  bytes: Whole,
  width: nullable(Whole),
  height: nullable(Whole),
});
export type RecordingFile = Static<typeof RecordingFile>;

export const CompositionState = Type.Object({
  status: literals(["RUNNING", "READY", "FAILED"]),
  progress: Type.Number({ minimum: 0, maximum: 1 }),
  fileId: nullable(Text),
  error: Type.Union([Type.String(), Type.Null()], { description: "Why it failed" }),
});
export type CompositionState = Static<typeof CompositionState>;

export const Recording = Type.Object({
  id: Text,
  roomId: Text,
  roomName: Text,
  callId: nullable(Text),
  name: nullable(Text),
  audioOnly: Type.Boolean(),
  status: literals(RECORDING_STATUSES),
  error: nullable(Text),
  startedAt: Text,
  endedAt: nullable(Text),
  durationMs: Type.Integer({ description: "The duration so far while it is recording" }),
  bytes: Whole,
  files: Type.Array(RecordingFile),
  encryptedTracks: Type.Integer({ description: "Tracks that were left out because they are end-to-end encrypted" }),
  composition: Type.Union([CompositionState, Type.Null()]),
});
export type Recording = Static<typeof Recording>;
