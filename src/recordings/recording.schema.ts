import { t } from "elysia";
import { Timestamp } from "../kernel/http/schema.ts";

export const StartRecording = t.Object({
  name: t.Optional(t.String({ minLength: 1, maxLength: 128, description: "For people to find it by" })),
  audioOnly: t.Optional(t.Boolean({ description: "Leave pictures out" })),
});

export const TimelineEntry = t.Object(
  {
    atMs: t.Integer({ description: "From the recording's start" }),
    type: t.String({ description: "As the push of the same name, or message" }),
    identity: t.Optional(t.String()),
  },
  { additionalProperties: true },
);

export const RecordingUrl = t.Object({ url: t.String(), expiresAt: Timestamp });
