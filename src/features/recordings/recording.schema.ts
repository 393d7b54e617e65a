import { type Static, Type } from "@sinclair/typebox";
import { t } from "elysia";
import { oneOf, Timestamp, wholeNumber } from "../../kernel/http/schema.ts";
import { Recording } from "../../protocol/recordings.ts";
import { TIMELINE_MESSAGE } from "../sessions/calls/call.schema.ts";

export const StartRecording = t.Object({
  name: t.Optional(t.String({ minLength: 1, maxLength: 128, description: "A name to find it by" })),
  audioOnly: t.Optional(t.Boolean({ description: "Record no video" })),
});
export type StartRecording = Static<typeof StartRecording>;

export const TimelineEntry = t.Object(
  {
    atMs: Type.Integer({ description: "From the recording's start" }),
    type: t.String({ description: "The name of the notification to clients, or message" }),
    identity: t.Optional(t.String()),
    ...TIMELINE_MESSAGE,
  },
  { additionalProperties: true },
);

export const RecordingUrl = t.Object({ url: t.String(), expiresAt: Timestamp });

export const MintViewToken = t.Object({
  ttlSeconds: t.Optional(
    wholeNumber({ min: 1, max: 604_800, description: "How long the link works; 3600 by default" }),
  ),
});

export const ViewUrl = t.Object({
  url: t.String({ description: "The replay page; what follows `#token=` is for GET /v1/replays/{token}" }),
});

export const Replay = t.Object({
  recording: Recording,
  names: t.Record(t.String(), t.String(), {
    description: "Names for people to read, by identity; of those who have one",
  }),
  timeline: t.Array(TimelineEntry),
  downloads: t.Array(t.Object({ fileId: t.String(), url: t.String(), expiresAt: Timestamp })),
});

export const ComposeRecording = t.Object({
  layout: oneOf(["grid", "speaker"]),
  width: t.Optional(wholeNumber({ min: 160, max: 3_840, description: "Of the video; 1280 by default" })),
  height: t.Optional(wholeNumber({ min: 120, max: 2_160, description: "Of the video; 720 by default" })),
  names: t.Optional(t.Boolean({ description: "Write each participant's name into its tile; true by default" })),
});
export type ComposeRecording = Static<typeof ComposeRecording>;
