import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { NullableTimestamp, nullable, oneOf, Timestamp } from "../../../kernel/http/schema.ts";
import { CALL_STATUSES } from "../../../protocol/enums.ts";
import { CallVerdict, QUALITIES } from "../../../protocol/room-records.ts";

export const CallStatus = oneOf(CALL_STATUSES);

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
  minutes: Type.Integer({ description: "Participant-minutes so far, as usage counts them" }),
});

const CallParticipant = t.Object({
  identity: t.String(),
  connectionId: t.String(),
  joinedAt: Timestamp,
  leftAt: NullableTimestamp,
  leaveReason: nullable(t.String()),
  quality: nullable(oneOf(QUALITIES)),
  verdict: t.Union([CallVerdict, t.Null()]),
});

export const CallDetail = t.Object({ ...Call.properties, participants: t.Array(CallParticipant) });

export const CallTimelineEntry = t.Object(
  {
    atMs: Type.Integer({ description: "From the call's start" }),
    type: t.String({
      description:
        "participant.joined, participant.left, track.published, track.unpublished, quality.changed, encoder.limited, reconnecting, reconnected, media.stalled, media.flows, error, message",
    }),
    identity: t.Optional(t.String()),
  },
  { additionalProperties: true },
);
