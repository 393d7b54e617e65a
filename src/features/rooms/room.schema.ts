import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { Environment, Name, NullableTimestamp, nullable, oneOf, Timestamp } from "../../kernel/http/schema.ts";
import { MAX_REGION_LENGTH } from "../../protocol/ids.ts";
import { LiveParticipant } from "../../protocol/room-records.ts";

export const RoomStatus = oneOf(["ACTIVE", "CLOSED"]);

export const CreateRoom = t.Object({
  name: Name,
  region: t.Optional(
    t.String({
      minLength: 1,
      maxLength: MAX_REGION_LENGTH,
      description: "Where its media should run; a preference, not a promise",
    }),
  ),
  record: t.Optional(t.Boolean({ description: "Record every call in it" })),
});

export const MuteTrack = t.Object({
  muted: t.Literal(true, { error: "must be true: a server never opens a microphone" }),
});

const room = {
  id: t.String(),
  projectId: t.String(),
  environment: Environment,
  name: t.String(),
  region: nullable(t.String()),
  status: RoomStatus,
  record: t.Boolean({ description: "Every call in it is recorded" }),
  recording: t.Boolean({ description: "It is being recorded now" }),
  participantCount: nullable(Type.Integer({ description: "null when the room's media node does not respond" })),
  serverName: nullable(t.String({ description: "null while the room is empty" })),
  createdAt: Timestamp,
  updatedAt: Timestamp,
  closedAt: NullableTimestamp,
};

export const Room = t.Object(room);
export const RoomWithParticipants = t.Object({ ...room, participants: t.Array(LiveParticipant) });
export const Participants = t.Array(LiveParticipant);
