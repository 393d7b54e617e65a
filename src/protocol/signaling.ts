/** The RTC socket `GET /v1/rtc`: all frames of the client and the server. Its close codes are in close-codes.ts. */
import { type Static, type TObject, type TProperties, Type } from "@sinclair/typebox";
import { IDENTITY_PATTERN } from "./ids.ts";
import { literals } from "./literals.ts";
import {
  Attributes,
  CallVerdict,
  DisplayName,
  IceServer,
  Identity,
  Knock,
  Layer,
  Participant,
  Permissions,
  Quality,
  RoomState,
  Speaker,
  Track,
  TrackEncryption,
  TrackKind,
  TrackSource,
} from "./room-records.ts";

/** SDP above this size is sent as `sdpDeflate`, so that a full room fits into the default frame size. */
export const SDP_DEFLATE_THRESHOLD_BYTES = 8_192;
/**
 * The limit for an uncompressed session description, on the socket and over HTTP. The SDP of a full room has about
 * 78,000 bytes.
 */
export const SDP_MAX_BYTES = 128 * 1_024;
/** The limits for a frame on a data channel and for the payload of `data.send` on the socket. */
export const DATA_FRAME_MAX_BYTES = 65_536;
export const DATA_SEND_MAX_BYTES = 8_192;
/** The frames that are kept for a client that resumes. */
export const RESUME_RING_FRAMES = 256;
export const JOIN_TIMEOUT_SECONDS = 10;
/**
 * A room with more participants is large: it lists only those who publish, unless a client asks for all, and combines
 * the changes of the others.
 */
export const LARGE_ROOM_ABOVE = 50;
export const PARTICIPANTS_PAGE_MAX = 200;

const SPOTLIGHT_MAX = 16;

const RequestId = Type.String({ minLength: 1, maxLength: 64 });
const Mid = Type.String({ minLength: 1, maxLength: 32 });
const TrackId = Type.String({ minLength: 1, maxLength: 64 });
const Topic = Type.String({ minLength: 1, maxLength: 128 });
const To = Type.Array(Identity, { minItems: 1, maxItems: 500 });
/** The server limits it to 1,024 code points; each has up to two UTF-16 units here. */
const Metadata = Type.String({ maxLength: 2_048 });

/**
 * Which other participants a client is told about: all of them, those who publish, or those who publish without their
 * quality and, in a large room, without the speakers.
 */
export const Roster = literals(["all", "publishers", "none"]);
export type Roster = Static<typeof Roster>;

function request<T extends string, P extends TProperties>(type: T, properties: P) {
  return Type.Object({ type: Type.Literal(type), id: RequestId, ...properties });
}

// ---------------------------------------------------------------- client → server

/** A sending media section of the offer, and its track. */
export const PublishedSection = Type.Object({
  mid: Mid,
  clientTrackId: Type.String({ minLength: 1, maxLength: 128 }),
  kind: TrackKind,
  source: TrackSource,
  name: Type.Optional(Type.String({ maxLength: 128 })),
  encryption: Type.Optional(TrackEncryption),
  /** The id of an own track whose video this section sends again, for viewers that cannot decode its codec. */
  backupOf: Type.Optional(TrackId),
});
export type PublishedSection = Static<typeof PublishedSection>;

export const LayerChoice = Type.Union([Layer, Type.Literal("auto")]);
export type LayerChoice = Static<typeof LayerChoice>;

/** What a subscriber wants of a track at most; within that, its bandwidth decides. */
const viewing = {
  /** The height at which it shows the track: higher layers are not sent. */
  maxHeight: Type.Optional(Type.Integer({ minimum: 1, maximum: 8_640 })),
  /** The highest layer to send; `auto`, the default, sets no limit. */
  layer: Type.Optional(LayerChoice),
  /** Tracks with a higher priority are preferred when bandwidth is insufficient; 0 by default. */
  priority: Type.Optional(Type.Integer({ minimum: -100, maximum: 100 })),
  /** The highest useful frame rate: fewer frames are sent if the publisher encodes temporal layers. */
  maxFps: Type.Optional(Type.Integer({ minimum: 1, maximum: 240 })),
};

/** A receiving media section of the offer, and the track to deliver on it. */
export const SubscribedSection = Type.Object({ mid: Mid, trackId: TrackId, ...viewing });
export type SubscribedSection = Static<typeof SubscribedSection>;

/** A receiving audio section that the server assigns to one of the room's loudest voices at a time. */
export const VoiceSection = Type.Object({ mid: Mid, voices: Type.Literal(true) });
export type VoiceSection = Static<typeof VoiceSection>;
export const VOICE_SECTIONS_MAX = 16;

export const SubscriptionChange = Type.Object({
  trackId: TrackId,
  /** The section to deliver on; null ends the subscription and frees its section. */
  mid: Type.Union([Mid, Type.Null()]),
  paused: Type.Optional(Type.Boolean()),
  ...viewing,
});
export type SubscriptionChange = Static<typeof SubscriptionChange>;

/**
 * The codecs in which a publisher may be asked to send a copy of its video for viewers that cannot decode its own. Every browser
 * decodes one of them; VP8 costs the publisher less where there is no hardware for H264.
 */
export const BACKUP_CODECS = ["VP8", "H264"] as const;
export const BackupCodec = literals(BACKUP_CODECS);
export type BackupCodec = Static<typeof BackupCodec>;

/** Exactly one of `sdp` and `sdpDeflate` is present. */
const sdp = { sdp: Type.Optional(Type.String()), sdpDeflate: Type.Optional(Type.String()) };

export const ClientFrames = {
  "room.join": request("room.join", {
    connectionId: Type.String({ pattern: IDENTITY_PATTERN }),
    sdk: Type.Optional(Type.String({ maxLength: 128 })),
    /** By default `all` in a room of up to 50, `publishers` in a larger one, and `none` for viewers of a live stream. */
    roster: Type.Optional(Roster),
    /** A P-256 point in base64url for agreeing on keys; others get it as the attribute `stoa.key`. */
    publicKey: Type.Optional(Type.String({ pattern: "^[A-Za-z0-9_-]{87}$" })),
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
    subscribe: Type.Array(Type.Union([SubscribedSection, VoiceSection]), { maxItems: 512 }),
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
  /**
   * Omitted fields stay unchanged; attributes are merged, and an empty value removes its key. Any value of the attribute
   * `stoa.hand` raises the hand, and becomes the time of the server. A host lowers the hand of `identity`.
   */
  "participant.update": request("participant.update", {
    identity: Type.Optional(Identity),
    metadata: Type.Optional(Type.Union([Metadata, Type.Null()])),
    name: Type.Optional(Type.Union([DisplayName, Type.Null()])),
    attributes: Type.Optional(Attributes),
  }),
  /** A page of all participants in the order in which they joined; `after` is the `next` of the page before. */
  "room.participants": request("room.participants", {
    after: Type.Optional(Type.Integer({ minimum: 0 })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: PARTICIPANTS_PAGE_MAX })),
  }),
  /** From a host: omitted fields stay unchanged. */
  "room.update": request("room.update", {
    spotlight: Type.Optional(Type.Array(Identity, { maxItems: SPOTLIGHT_MAX })),
    locked: Type.Optional(Type.Boolean()),
    lobby: Type.Optional(Type.Boolean()),
    captions: Type.Optional(Type.Boolean()),
  }),
  /** From a host: lets a waiting participant in, until it is removed or the room is closed, or turns it away. */
  "lobby.admit": request("lobby.admit", { identity: Identity }),
  "lobby.deny": request("lobby.deny", { identity: Identity }),
  "room.leave": request("room.leave", {}),
  ping: Type.Object({ type: Type.Literal("ping"), id: Type.Optional(RequestId) }),
} as const satisfies Record<string, TObject>;

export type ClientFrameType = keyof typeof ClientFrames;
export type ClientFrameOf<T extends ClientFrameType> = Static<(typeof ClientFrames)[T]>;
export type ClientFrame = { [T in ClientFrameType]: ClientFrameOf<T> }[ClientFrameType];

/**
 * A frame of a client on a data channel. A frame with a sequence number within a stream is forwarded once, even if it
 * arrives again: a client whose connection was replaced cannot know which frames arrived.
 */
export const DataChannelFrame = Type.Object({
  topic: Type.Optional(Topic),
  to: Type.Optional(To),
  payload: Type.String(),
  stream: Type.Optional(Type.String({ minLength: 1, maxLength: 36 })),
  seq: Type.Optional(Type.Integer({ minimum: 1 })),
});
export type DataChannelFrame = Static<typeof DataChannelFrame>;
/** A frame that others receive. `from` is null for data from the server; `seq` exists on a numbered channel. */
export type DataChannelDelivery = { from: string | null; topic?: string; payload: string; seq?: number };
/**
 * The subprotocol of a `reliable` channel with numbered deliveries. It contains the `seq` of the last delivery that the
 * client has received; later ones are sent again. On such a channel each side regularly sends `{ heard }` with the last
 * `seq` received.
 */
export const DATA_NUMBERED = /^(?:numbered|packets)\.(\d{1,15})$/;
/**
 * The subprotocol of a channel whose messages are LiveKit's `DataPacket` instead of JSON frames; on the `reliable`
 * channel `packets.N` continues after the delivery N, which is the packet's field `sequence`.
 */
export const DATA_PACKETS = /^packets(?:\.\d{1,15})?$/;
/** The labels of the client's two channels: ordered and retransmitted, or neither. */
export const DATA_CHANNELS = { reliable: "reliable", lossy: "lossy" } as const;

// ---------------------------------------------------------------- server → client: answers

export const JoinAck = Type.Object({
  mode: Type.Union([Type.Literal("new"), Type.Literal("resumed"), Type.Literal("replaced")]),
  sessionId: Type.String(),
  resumeToken: Type.String(),
  resumeWindowSeconds: Type.Integer(),
  seq: Type.Integer(),
  room: Type.Object({ id: Type.String(), name: Type.String(), recording: Type.Boolean(), encrypted: Type.Boolean() }),
  state: RoomState,
  /** Who waits in the lobby, for hosts. */
  lobby: Type.Optional(Type.Array(Knock)),
  participant: Participant,
  roster: Roster,
  participants: Type.Array(Participant),
  /** All participants in the room, including this one. */
  participantCount: Type.Integer(),
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

export const ParticipantsAck = Type.Object({
  participants: Type.Array(Participant),
  participantCount: Type.Integer(),
  /** Null on the last page. */
  next: Type.Union([Type.Integer(), Type.Null()]),
});
export type ParticipantsAck = Static<typeof ParticipantsAck>;

export type AckBody<T extends ClientFrameType> = T extends "room.join"
  ? JoinAck
  : T extends "media.offer"
    ? OfferAck
    : T extends "room.participants"
      ? ParticipantsAck
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
/** A host has admitted this client, which was refused with `IN_LOBBY`: send `room.join` again. */
export type AdmittedFrame = { type: "lobby.admitted" };
type PongFrame = { type: "pong"; id?: string };
/** The response to a request, or to an invalid frame. */
export type AnswerFrame = AckFrame | ErrorFrame | PongFrame | AdmittedFrame;

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
  /** The participant was moved to another room. */
  "moved",
]);
export type LeaveReason = Static<typeof LeaveReason>;

/** Why this layer is delivered: as requested, or limited by bandwidth, the publisher, an unsupported codec, or permissions. */
export const DeliveryReason = literals(["requested", "bandwidth", "source", "codec", "permission"]);
export type DeliveryReason = Static<typeof DeliveryReason>;

/**
 * The message was over the limit of the sender or the room, not permitted, invalid, its receiver is too far behind, or it
 * is no text and its receiver has no channel for packets.
 */
export const DataDropReason = literals(["rate_limited", "permission_denied", "invalid", "slow_reader", "text_only"]);
export type DataDropReason = Static<typeof DataDropReason>;

const ofTrack = { identity: Identity, trackId: TrackId };

export const Pushes = {
  "participant.joined": push("participant.joined", { participant: Participant }),
  "participant.left": push("participant.left", { identity: Identity, reason: LeaveReason }),
  "participant.updated": push("participant.updated", { participant: Participant }),
  /**
   * In a large room, the changes of those who publish nothing, at most twice a second and to clients with the roster
   * `all` only. Apply `left` first. A change may already be known.
   */
  "participants.changed": push("participants.changed", {
    joined: Type.Array(Participant),
    left: Type.Array(Type.Object({ identity: Identity, reason: LeaveReason })),
    updated: Type.Array(Participant),
    count: Type.Integer(),
  }),
  "track.published": push("track.published", { identity: Identity, track: Track }),
  "track.unpublished": push("track.unpublished", ofTrack),
  "track.muted": push("track.muted", ofTrack),
  "track.unmuted": push("track.unmuted", ofTrack),
  "speakers.changed": push("speakers.changed", { speakers: Type.Array(Speaker) }),
  /** The identity whose microphone is on each section for the loudest voices, by `mid`. Sections that are not listed are free. */
  "voices.changed": push("voices.changed", { voices: Type.Record(Mid, Identity) }),
  /** Recording of the room started (`active`) or stopped. */
  "recording.changed": push("recording.changed", { active: Type.Boolean() }),
  "room.state": push("room.state", { state: RoomState }),
  /** For hosts: everyone who waits in the lobby. */
  "lobby.changed": push("lobby.changed", { waiting: Type.Array(Knock) }),
  "layers.wanted": push("layers.wanted", { trackId: TrackId, layers: Type.Array(Layer) }),
  /**
   * The codecs that viewers of the track need besides its own: send one of them on a section with `backupOf`. It is no longer
   * needed when the list is empty.
   */
  "codecs.wanted": push("codecs.wanted", { trackId: TrackId, codecs: Type.Array(BackupCodec) }),
  "subscription.changed": push("subscription.changed", {
    trackId: TrackId,
    layer: Type.Union([Layer, Type.Null()]),
    paused: Type.Boolean(),
    reason: DeliveryReason,
  }),
  "quality.changed": push("quality.changed", { identity: Identity, quality: Quality }),
  /** The explanation of this client's call quality in the last half minute; sent when the cause changes. */
  "quality.explained": push("quality.explained", CallVerdict.properties),
  /**
   * No media of this client arrives although some is expected, so it must reconnect its media; `media.flows` ends this
   * state.
   */
  "media.stalled": push("media.stalled", {}),
  "media.flows": push("media.flows", {}),
  /**
   * Messages of this client that were not forwarded, at most once per second for each reason. With `slow_reader`, `identity` did
   * not get them; that participant is told too.
   */
  "data.dropped": push("data.dropped", {
    messages: Type.Integer(),
    reason: DataDropReason,
    identity: Type.Optional(Identity),
  }),
  /** This many bytes of reliable data wait for the participant: send no more until this push reports less. */
  "data.behind": push("data.behind", { identity: Identity, bytes: Type.Integer() }),
  /**
   * The backend moves this participant to another room of the same server: join it with this token, then leave this one,
   * which otherwise ends the session after 20 seconds.
   */
  "room.moved": push("room.moved", {
    room: Type.Object({ id: Type.String(), name: Type.String() }),
    endpoint: Type.String(),
    token: Type.String(),
  }),
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
/** A push before the session has assigned its `seq`. */
export type PushBody = { [T in PushType]: Omit<PushOf<T>, "seq"> }[PushType];
