/** The RTC socket `GET /v1/rtc`: every frame a client may send and every frame the server sends. Its close codes stand in close-codes.ts. */
import { type Static, type TObject, type TProperties, Type } from "@sinclair/typebox";
import { literals } from "./literals.ts";
import {
  Attributes,
  CallVerdict,
  DisplayName,
  IceServer,
  Identity,
  Layer,
  Participant,
  Permissions,
  Quality,
  Speaker,
  Track,
  TrackKind,
  TrackSource,
} from "./room-records.ts";

/** Plain SDP above this size travels as `sdpDeflate`, so that a full room fits the default frame. */
export const SDP_DEFLATE_THRESHOLD_BYTES = 8_192;
/** Of a session description, plain or inflated, on the socket and over HTTP. A full room has about 78,000. */
export const SDP_MAX_BYTES = 128 * 1_024;
/** A data frame on a data channel, and a `data.send` payload on the socket. */
export const DATA_FRAME_MAX_BYTES = 65_536;
export const DATA_SEND_MAX_BYTES = 8_192;
/** Frames kept for a client that resumes. */
export const RESUME_RING_FRAMES = 256;
export const JOIN_TIMEOUT_SECONDS = 10;

const RequestId = Type.String({ minLength: 1, maxLength: 64 });
const Mid = Type.String({ minLength: 1, maxLength: 32 });
const TrackId = Type.String({ minLength: 1, maxLength: 64 });
const Topic = Type.String({ minLength: 1, maxLength: 128 });
const To = Type.Array(Identity, { minItems: 1, maxItems: 500 });
/** 1,024 characters as code points, which the server counts; a code point takes up to two units here. */
const Metadata = Type.String({ maxLength: 2_048 });

function request<T extends string, P extends TProperties>(type: T, properties: P) {
  return Type.Object({ type: Type.Literal(type), id: RequestId, ...properties });
}

// ---------------------------------------------------------------- client → server

/** A section of the offer that sends, and what it carries. */
export const PublishedSection = Type.Object({
  mid: Mid,
  clientTrackId: Type.String({ minLength: 1, maxLength: 128 }),
  kind: TrackKind,
  source: TrackSource,
  name: Type.Optional(Type.String({ maxLength: 128 })),
});
export type PublishedSection = Static<typeof PublishedSection>;

export const LayerChoice = Type.Union([Layer, Type.Literal("auto")]);
export type LayerChoice = Static<typeof LayerChoice>;

/** What a viewer shows of a track: the server delivers the smallest layer that fills it. */
const viewing = {
  maxHeight: Type.Optional(Type.Integer({ minimum: 1, maximum: 8_640 })),
  layer: Type.Optional(LayerChoice),
  /** Higher is served first when bandwidth is short; 0 unless given. */
  priority: Type.Optional(Type.Integer({ minimum: -100, maximum: 100 })),
};

/** A section of the offer that receives, and the track wanted on it. */
export const SubscribedSection = Type.Object({ mid: Mid, trackId: TrackId, ...viewing });
export type SubscribedSection = Static<typeof SubscribedSection>;

export const SubscriptionChange = Type.Object({
  trackId: TrackId,
  /** The section to deliver on; null ends the subscription and frees its section. */
  mid: Type.Union([Mid, Type.Null()]),
  paused: Type.Optional(Type.Boolean()),
  ...viewing,
});
export type SubscriptionChange = Static<typeof SubscriptionChange>;

/** One of the two is present. */
const sdp = { sdp: Type.Optional(Type.String()), sdpDeflate: Type.Optional(Type.String()) };

export const ClientFrames = {
  "room.join": request("room.join", {
    connectionId: Identity,
    sdk: Type.Optional(Type.String({ maxLength: 128 })),
    resume: Type.Optional(
      Type.Object({
        sessionId: Type.String({ maxLength: 128 }),
        resumeToken: Type.String({ maxLength: 256 }),
        lastSeq: Type.Integer({ minimum: 0 }),
      }),
    ),
  }),
  "media.offer": request("media.offer", {
    ...sdp,
    iceRestart: Type.Optional(Type.Boolean()),
    publish: Type.Array(PublishedSection, { maxItems: 64 }),
    subscribe: Type.Array(SubscribedSection, { maxItems: 512 }),
  }),
  "subscription.update": request("subscription.update", {
    tracks: Type.Array(SubscriptionChange, { minItems: 1, maxItems: 512 }),
  }),
  "track.mute": request("track.mute", { trackId: TrackId, muted: Type.Boolean() }),
  "track.unpublish": request("track.unpublish", { trackId: TrackId }),
  "data.send": request("data.send", {
    topic: Type.Optional(Topic),
    to: Type.Optional(To),
    payload: Type.String({ maxLength: DATA_SEND_MAX_BYTES }),
  }),
  /** What is left out stays; attributes are merged, and an empty value takes its key away. */
  "participant.update": request("participant.update", {
    metadata: Type.Optional(Type.Union([Metadata, Type.Null()])),
    name: Type.Optional(Type.Union([DisplayName, Type.Null()])),
    attributes: Type.Optional(Attributes),
  }),
  "room.leave": request("room.leave", {}),
  ping: Type.Object({ type: Type.Literal("ping"), id: Type.Optional(RequestId) }),
} as const satisfies Record<string, TObject>;

export type ClientFrameType = keyof typeof ClientFrames;
export type ClientFrameOf<T extends ClientFrameType> = Static<(typeof ClientFrames)[T]>;
export type ClientFrame = { [T in ClientFrameType]: ClientFrameOf<T> }[ClientFrameType];

/**
 * On a data channel: what a client writes, and what others read. What is numbered within a stream is passed on once, however
 * often it comes: a client whose connection was replaced cannot know what of it had arrived.
 */
export const DataChannelFrame = Type.Object({
  topic: Type.Optional(Topic),
  to: Type.Optional(To),
  payload: Type.String(),
  stream: Type.Optional(Type.String({ minLength: 1, maxLength: 36 })),
  seq: Type.Optional(Type.Integer({ minimum: 1 })),
});
export type DataChannelFrame = Static<typeof DataChannelFrame>;
/** `from` is null when the server itself speaks; `seq` on a numbered channel. */
export type DataChannelDelivery = { from: string | null; topic?: string; payload: string; seq?: number };
/**
 * The protocol of a `reliable` channel whose deliveries are numbered, with the last one that its client has had: what came
 * after it comes again. On such a channel each side says `{ heard }` now and then, the last `seq` that it has had of the other.
 */
export const DATA_NUMBERED = /^numbered\.(\d{1,15})$/;
/** Labels of the two channels a client opens: ordered and retransmitted, or neither. */
export const DATA_CHANNELS = { reliable: "reliable", lossy: "lossy" } as const;

// ---------------------------------------------------------------- server → client: answers

export const JoinAck = Type.Object({
  mode: Type.Union([Type.Literal("new"), Type.Literal("resumed"), Type.Literal("replaced")]),
  sessionId: Type.String(),
  resumeToken: Type.String(),
  resumeWindowSeconds: Type.Integer(),
  seq: Type.Integer(),
  room: Type.Object({ id: Type.String(), name: Type.String(), recording: Type.Boolean() }),
  participant: Participant,
  participants: Type.Array(Participant),
  serverName: Type.String(),
  region: Type.String(),
  iceServers: Type.Array(IceServer),
  permissions: Permissions,
  limits: Type.Object({
    maxMessageBytes: Type.Integer(),
    messagesPerWindow: Type.Integer(),
    windowSeconds: Type.Integer(),
    maxParticipants: Type.Integer(),
  }),
});
export type JoinAck = Static<typeof JoinAck>;

export const OfferAck = Type.Object({
  ...sdp,
  tracks: Type.Array(Type.Object({ clientTrackId: Type.String(), trackId: TrackId })),
});
export type OfferAck = Static<typeof OfferAck>;

export type AckBody<T extends ClientFrameType> = T extends "room.join"
  ? JoinAck
  : T extends "media.offer"
    ? OfferAck
    : Record<never, never>;
type AckFrame<T extends ClientFrameType = ClientFrameType> = { type: "ack"; id: string } & AckBody<T>;

export const ErrorFrame = Type.Object({
  type: Type.Literal("error"),
  id: Type.Optional(RequestId),
  code: Type.String(),
  message: Type.String(),
  retryAfterSeconds: Type.Optional(Type.Number()),
});
export type ErrorFrame = Static<typeof ErrorFrame>;
type PongFrame = { type: "pong"; id?: string };
/** What a request, or a frame that was none, is answered with. */
export type AnswerFrame = AckFrame | ErrorFrame | PongFrame;

// ---------------------------------------------------------------- server → client: pushes, each with `seq`

function push<T extends string, P extends TProperties>(type: T, properties: P) {
  return Type.Object({ type: Type.Literal(type), seq: Type.Integer(), ...properties });
}

export const LeaveReason = literals([
  "left",
  "timeout",
  "replaced",
  "removed",
  "revoked",
  "room_closed",
  "stream_ended",
  "failed",
  "node_lost",
  "restart",
]);
export type LeaveReason = Static<typeof LeaveReason>;

/** Why a viewer gets what it gets: its own wish, too little bandwidth, nothing being sent, a codec it has not, or permissions. */
export const DeliveryReason = literals(["requested", "bandwidth", "source", "codec", "permission"]);
export type DeliveryReason = Static<typeof DeliveryReason>;

/** Too much for this sender or its room, not permitted to it, or nothing that could be read. */
export const DataDropReason = literals(["rate_limited", "permission_denied", "invalid"]);
export type DataDropReason = Static<typeof DataDropReason>;

const ofTrack = { identity: Identity, trackId: TrackId };

export const Pushes = {
  "participant.joined": push("participant.joined", { participant: Participant }),
  "participant.left": push("participant.left", { identity: Identity, reason: LeaveReason }),
  "participant.updated": push("participant.updated", { participant: Participant }),
  "track.published": push("track.published", { identity: Identity, track: Track }),
  "track.unpublished": push("track.unpublished", ofTrack),
  "track.muted": push("track.muted", ofTrack),
  "track.unmuted": push("track.unmuted", ofTrack),
  "speakers.changed": push("speakers.changed", { speakers: Type.Array(Speaker) }),
  /** The room is being recorded from now on, or no longer. */
  "recording.changed": push("recording.changed", { active: Type.Boolean() }),
  "layers.wanted": push("layers.wanted", { trackId: TrackId, layers: Type.Array(Layer) }),
  "subscription.changed": push("subscription.changed", {
    trackId: TrackId,
    layer: Type.Union([Layer, Type.Null()]),
    paused: Type.Boolean(),
    reason: DeliveryReason,
  }),
  "quality.changed": push("quality.changed", { identity: Identity, quality: Quality }),
  /** Why this client's own call is as it is, over the last half minute; told when the cause changes. */
  "quality.explained": push("quality.explained", CallVerdict.properties),
  /** Nothing of this client arrives although something is due: it has to mend its connection; then that it does again. */
  "media.stalled": push("media.stalled", {}),
  "media.flows": push("media.flows", {}),
  /** Messages of this client on its data channels that were not passed on; at most once a second for each reason. */
  "data.dropped": push("data.dropped", { messages: Type.Integer(), reason: DataDropReason }),
  "permissions.changed": push("permissions.changed", { permissions: Permissions }),
  data: push("data", {
    from: Type.Union([Identity, Type.Null()]),
    topic: Type.Optional(Topic),
    payload: Type.String(),
  }),
  bye: push("bye", {
    reason: Type.String(),
    action: Type.Union([Type.Literal("stop"), Type.Literal("resume"), Type.Literal("rejoin")]),
    retryAfterMs: Type.Optional(Type.Integer()),
  }),
} as const satisfies Record<string, TObject>;

type PushType = keyof typeof Pushes;
type PushOf<T extends PushType> = Static<(typeof Pushes)[T]>;
export type Push = { [T in PushType]: PushOf<T> }[PushType];
/** A push before the session has numbered it. */
export type PushBody = { [T in PushType]: Omit<PushOf<T>, "seq"> }[PushType];
