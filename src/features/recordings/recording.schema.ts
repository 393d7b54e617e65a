import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { oneOf, Timestamp, wholeNumber } from "../../kernel/http/schema.ts";
import { Recording } from "../../protocol/recordings.ts";

export const StartRecording = t.Object({
  name: t.Optional(t.String({ minLength: 1, maxLength: 128, description: "For people to find it by" })),
  audioOnly: t.Optional(t.Boolean({ description: "Leave pictures out" })),
});

export const TimelineEntry = t.Object(
  {
    atMs: Type.Integer({ description: "From the recording's start" }),
    type: t.String({ description: "As the push of the same name, or message" }),
    identity: t.Optional(t.String()),
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
  url: t.String({ description: "The replay page; what stands after `#token=` is for GET /v1/replays/{token}" }),
});

/** Everything that the replay page shows. */
export const Replay = t.Object({
  recording: Recording,
  timeline: t.Array(TimelineEntry),
  downloads: t.Array(t.Object({ fileId: t.String(), url: t.String(), expiresAt: Timestamp })),
});

export const ComposeRecording = t.Object({
  layout: oneOf(["grid", "speaker"]),
  width: t.Optional(wholeNumber({ min: 160, max: 3_840, description: "Of the picture; 1280 by default" })),
  height: t.Optional(wholeNumber({ min: 120, max: 2_160, description: "Of the picture; 720 by default" })),
  names: t.Optional(t.Boolean({ description: "Write in each picture who it is; true by default" })),
});
