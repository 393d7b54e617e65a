import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { NullableTimestamp, nullable, oneOf, Timestamp } from "../../../kernel/http/schema.ts";
import { CALL_STATUSES, QUALITIES, VERDICT_CAUSES } from "../../../protocol/enums.ts";
import { CallVerdict } from "../../../protocol/room-records.ts";

export const CallStatus = oneOf(CALL_STATUSES);

export const CallQuality = oneOf(QUALITIES);
export const CallCause = oneOf(VERDICT_CAUSES);

export const Call = t.Object({
  id: t.String(),
  roomId: t.String(),
  roomName: t.String(),
  status: CallStatus,
  startedAt: Timestamp,
  endedAt: NullableTimestamp,
  durationMs: Type.Integer({ description: "So far, of a call that is on" }),
  participantCount: Type.Integer({ description: "Distinct identities so far" }),
  peakParticipants: Type.Integer({ description: "Most at once" }),
  quality: t.Union([CallQuality, t.Null()], {
    description: "The worst quality among the participants who have left; null before one has",
  }),
  cause: t.Union([CallCause, t.Null()], { description: "The cause in that participant's verdict" }),
  encrypted: t.Boolean({ description: "Its room takes end-to-end encrypted tracks only" }),
  recordingIds: t.Array(t.String(), { description: "Recordings made during the call, oldest first" }),
  minutes: Type.Integer({ description: "Participant-minutes so far, as usage counts them" }),
});

export const CallParticipant = t.Object({
  identity: t.String(),
  name: nullable(t.String({ description: "For people to read, if the backend gave one" })),
  connectionId: t.String(),
  joinedAt: Timestamp,
  leftAt: NullableTimestamp,
  leaveReason: nullable(t.String()),
  quality: nullable(CallQuality),
  verdict: t.Union([CallVerdict, t.Null()]),
});

export const CallDetail = t.Object({ ...Call.properties, participants: t.Array(CallParticipant) });

/** Fields of entries of type `message`. */
export const TIMELINE_MESSAGE = {
  messageId: t.Optional(t.String()),
  senderId: t.Optional(nullable(t.String({ description: "null for the server" }))),
  text: t.Optional(t.String({ description: "For an API key; a dashboard session does not get the words" })),
};

export const CallTimelineEntry = t.Object(
  {
    atMs: Type.Integer({ description: "From the call's start" }),
    type: t.String({
      description:
        "participant.joined, participant.left, track.published, track.unpublished, quality.changed, encoder.limited, keys.missing, reconnecting, reconnected, media.stalled, media.flows, error, message",
    }),
    identity: t.Optional(t.String()),
    ...TIMELINE_MESSAGE,
  },
  { additionalProperties: true },
);
