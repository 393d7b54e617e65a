import { type Static, Type } from "@sinclair/typebox";
import { t } from "elysia";
import {
  Environment,
  Name,
  NullableTimestamp,
  nullable,
  oneOf,
  Timestamp,
  wholeNumber,
} from "../../kernel/http/schema.ts";
import { RoomLink } from "../../nodes/registration/server.schema.ts";
import { MAX_REGION_LENGTH } from "../../protocol/ids.ts";
import { Knock, LiveParticipant } from "../../protocol/room-records.ts";

export const RoomStatus = oneOf(["ACTIVE", "CLOSED"]);

/** The reference to a room in a path, a query or a body. */
export const RoomReference = t.String({ maxLength: 512, description: "A room's id or its name" });

const MAX_PARTICIPANTS = 10_000;
const AT_ONCE = "The most participants at once; null for as many as the server takes";

const ENCRYPTED = "Take end-to-end encrypted tracks only; the room cannot be recorded";

const LOBBY = "Let participants without the permission `admit` wait until a host or your backend admits them";
const LOCKED = "Let nobody join except hosts and participants with the permission `admit`";
const CAPTIONS = "Have clients show captions, if there are any";

const UNUSED = "Close the room when nobody has joined it for this long; null keeps it open";
const DEPARTED =
  "With emptyTimeoutSeconds: close the room this long after the last participant has left, 20 by default";

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
  encrypted: t.Optional(t.Boolean({ description: ENCRYPTED })),
  lobby: t.Optional(t.Boolean({ description: LOBBY })),
  captions: t.Optional(t.Boolean({ description: CAPTIONS })),
  maxParticipants: t.Optional(nullable(wholeNumber({ min: 1, max: MAX_PARTICIPANTS, description: AT_ONCE }))),
  metadata: t.Optional(
    nullable(t.String({ maxLength: 65_536, description: "Your own text about the room, part of its record" })),
  ),
  emptyTimeoutSeconds: t.Optional(nullable(wholeNumber({ min: 0, max: 86_400, description: UNUSED }))),
  departureTimeoutSeconds: t.Optional(wholeNumber({ min: 0, max: 3_600, description: DEPARTED })),
});
export type CreateRoom = Static<typeof CreateRoom>;

/** Omitted fields stay unchanged. */
export const UpdateRoom = t.Object({
  metadata: CreateRoom.properties.metadata,
  maxParticipants: CreateRoom.properties.maxParticipants,
  lobby: CreateRoom.properties.lobby,
  locked: t.Optional(t.Boolean({ description: LOCKED })),
  captions: CreateRoom.properties.captions,
});

export const Knocks = t.Array(Knock);

export const MuteTrack = t.Object({
  muted: t.Literal(true, { error: "must be true: a server never opens a microphone" }),
});

const RoomSite = t.Object({
  serverName: t.String(),
  region: t.String(),
  participants: nullable(Type.Integer({ minimum: 0, description: "null when the media node does not respond" })),
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
  encrypted: t.Boolean({ description: ENCRYPTED }),
  lobby: t.Boolean({ description: LOBBY }),
  locked: t.Boolean({ description: LOCKED }),
  captions: t.Boolean({ description: CAPTIONS }),
  maxParticipants: nullable(Type.Integer({ description: AT_ONCE })),
  metadata: nullable(t.String()),
  emptyTimeoutSeconds: nullable(Type.Integer({ description: UNUSED })),
  departureTimeoutSeconds: Type.Integer({ description: DEPARTED }),
  participantCount: nullable(Type.Integer({ description: "null when a media node of the room does not respond" })),
  serverName: nullable(t.String({ description: "The main media node; null while the room is empty" })),
  sites: t.Array(RoomSite, { description: "The media nodes with participants of the room, the main one first" }),
  createdAt: Timestamp,
  updatedAt: Timestamp,
  closedAt: NullableTimestamp,
};

export const Room = t.Object(room);
export const RoomWithParticipants = t.Object({
  ...room,
  links: t.Array(RoomLink, { description: "Between the media nodes of the room" }),
  participants: t.Array(LiveParticipant),
});
export const Participants = t.Array(LiveParticipant);
