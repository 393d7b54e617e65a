import type { Static } from "@sinclair/typebox";
import { t } from "elysia";
import { Identity, nullable, Timestamp, wholeNumber } from "../../kernel/http/schema.ts";
import { REFUSES_UNKNOWN_FIELDS } from "../../kernel/http/unknown-fields.ts";
import { MAX_REGION_LENGTH } from "../../protocol/ids.ts";
import {
  Attributes,
  IceServer,
  ParticipantKind,
  Permissions,
  Profile,
  TrackSource,
} from "../../protocol/room-records.ts";

/** The permissions of a participant; omitted fields have the default, and an unknown field is an error. */
export const RtcTokenPermissions = t.Object(
  {
    join: t.Optional(t.Boolean({ default: true, description: "May join the room" })),
    subscribe: t.Optional(t.Boolean({ default: true, description: "May receive other participants' tracks" })),
    publish: t.Optional(t.Boolean({ default: false, description: "May publish tracks" })),
    publishAudio: t.Optional(t.Boolean({ default: false, description: "With `publish`: restricts to audio" })),
    publishVideo: t.Optional(t.Boolean({ default: false, description: "With `publish`: restricts to video" })),
    publishData: t.Optional(t.Boolean({ default: false, description: "May send and receive data messages" })),
    updateMetadata: t.Optional(t.Boolean({ default: false, description: "May replace its own metadata" })),
    host: t.Optional(
      t.Boolean({ default: false, description: "May change the room's state and admits from its lobby" }),
    ),
    admit: t.Optional(t.Boolean({ default: false, description: "Joins without waiting in the lobby of the room" })),
    publishSources: t.Optional(
      t.Array(TrackSource, { maxItems: 5, description: "With `publish`: restricts to these sources; none for all" }),
    ),
  },
  REFUSES_UNKNOWN_FIELDS,
);

export const MintRtcToken = t.Object({
  participantIdentity: Identity,
  permissions: t.Optional(RtcTokenPermissions),
  ttlSeconds: t.Optional(wholeNumber({ min: 30, max: 21_600 })),
  // The service counts code points; this limit prevents it from counting megabytes.
  metadata: t.Optional(t.String({ maxLength: 2_048, description: "At most 1024 characters, handed to every client" })),
  name: t.Optional(t.String({ maxLength: 256, description: "For people to read: any text of at most 128 characters" })),
  attributes: t.Optional(Attributes),
  kind: t.Optional(ParticipantKind),
  region: t.Optional(
    t.String({
      minLength: 1,
      maxLength: MAX_REGION_LENGTH,
      description: "Join on a media node of this region, which is linked to those of the others",
    }),
  ),
});
export type MintRtcToken = Static<typeof MintRtcToken>;

export const MintTestToken = t.Object({ participantIdentity: t.Optional(Identity) });

export const RtcToken = t.Object({
  token: t.String(),
  tokenId: t.String(),
  endpoint: t.String({ description: "Address of the signaling socket" }),
  iceServers: t.Array(IceServer),
  roomId: t.String(),
  roomName: t.String(),
  participantIdentity: t.String(),
  permissions: Permissions,
  metadata: nullable(t.String()),
  ...Profile.properties,
  expiresAt: Timestamp,
  createdAt: Timestamp,
});
