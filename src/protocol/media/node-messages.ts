/**
 * Schemas of all messages of a remote media node. A node is only trusted with its own media: its messages are checked
 * against these schemas before they are used, and unknown fields are dropped.
 */
import { type Static, type TObject, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { literals } from "../literals.ts";
import type { MediaEvent, MediaMethod, MediaResponse, RoomSnapshot } from "../media-node.ts";
import { Layer, Permissions, Quality, TrackEncryption, TrackKind, TrackSource } from "../room-records.ts";
import { BackupCodec, DATA_FRAME_MAX_BYTES, DataDropReason, DeliveryReason, SDP_MAX_BYTES } from "../signaling.ts";
import { FlightDump } from "./flight.ts";
import { RECORDED_FILE_NAME, RECORDING_CODECS } from "./recording.ts";
import { LinkPoint, LinkState, OpenedLink, RelayedData, RelayedTrack } from "./relay.ts";

const nullable = <T extends TSchema>(type: T) => Type.Union([type, Type.Null()]);
const text = (maxLength: number) => Type.String({ maxLength });
const Id = Type.String({ minLength: 1, maxLength: 128 });
/** The control plane assigns identities; whether an identity is in the room is checked elsewhere. */
const Identity = Type.String({ minLength: 1, maxLength: 512 });
const Count = Type.Integer({ minimum: 0 });
const NullableNumber = nullable(Type.Number());
/** Thirty years in both directions, within the range of a Date. */
const Ms = Type.Number({ minimum: -1e12, maximum: 1e12 });
const Pixels = nullable(Type.Integer({ minimum: 0, maximum: 65_535 }));
const Address = Type.String({ pattern: "^[0-9A-Za-z.:%\\[\\]_-]{0,128}$" });
const Base64 = Type.String({ pattern: "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$" });
const Transport = literals(["udp", "tcp", "relay"]);
const Failure = literals(["consent_timeout", "ice_timeout", "dtls_failed", "dtls_closed", "worker_crashed"]);
const ROOM_MEMBERS = 100_000;

const NodeTrack = Type.Object({
  id: Id,
  kind: TrackKind,
  source: TrackSource,
  name: nullable(text(1_024)),
  muted: Type.Boolean(),
  simulcast: Type.Boolean(),
  codec: nullable(text(64)),
  encryption: Type.Optional(TrackEncryption),
});

const TransportStats = Type.Object({
  transport: nullable(Transport),
  remoteAddress: nullable(Address),
  srtpProfile: nullable(text(64)),
  rttMs: NullableNumber,
  jitterMs: NullableNumber,
  packetLossPercent: NullableNumber,
  uplinkLossPercent: NullableNumber,
  downlinkLossPercent: NullableNumber,
  availableOutBps: NullableNumber,
  heldBack: Type.Optional(Type.Boolean()),
  uplinkWaitMs: Type.Optional(NullableNumber),
  serverBusyPercent: Type.Optional(NullableNumber),
  usesLinks: Type.Optional(Type.Boolean()),
  bytesIn: Type.Number(),
  bytesOut: Type.Number(),
});

const ParticipantSnapshot = Type.Object({
  participantId: Id,
  identity: Identity,
  record: Type.Optional(text(4 * 1_024 * 1_024)),
  state: literals(["new", "connecting", "connected", "disconnected", "failed"]),
  permissions: Permissions,
  quality: nullable(Quality),
  tracks: Type.Array(NodeTrack, { maxItems: 1_000 }),
  subscriptions: Type.Array(
    Type.Object({ trackId: Id, mid: text(64), layer: nullable(Layer), paused: Type.Boolean() }),
    { maxItems: ROOM_MEMBERS },
  ),
  transport: TransportStats,
  lastDataSequence: Type.Optional(Type.Number()),
});

const NodeRoom = Type.Object({
  roomId: Id,
  participants: Type.Array(ParticipantSnapshot, { maxItems: ROOM_MEMBERS }),
}) satisfies TSchema & { static: RoomSnapshot };

const Codec = literals(RECORDING_CODECS);
const FileId = Type.String({ pattern: "^[A-Za-z0-9_-]{1,128}$" });

const NodeRecordedFile = Type.Object({
  fileId: FileId,
  fileName: Type.String({ pattern: RECORDED_FILE_NAME.source }),
  identity: Identity,
  trackId: Id,
  kind: TrackKind,
  source: TrackSource,
  codec: Codec,
  /** The value is used as the content type of a download. */
  mimeType: literals(["audio/webm", "video/webm", "audio/mp4", "video/mp4"]),
  offsetMs: Type.Integer({ minimum: -1e12, maximum: 1e12 }),
  durationMs: Type.Integer({ minimum: 0, maximum: 1e12 }),
  bytes: Count,
  width: Pixels,
  height: Pixels,
});

const NodePart = Type.Object({
  fileId: FileId,
  identity: Identity,
  trackId: Id,
  kind: TrackKind,
  source: TrackSource,
  /** The value is written in quotes into a playlist. */
  codecs: Type.String({ pattern: "^[A-Za-z0-9.]{1,64}$" }),
  width: Pixels,
  height: Pixels,
  head: nullable(Base64),
  data: Base64,
  atMs: Ms,
  durationMs: Ms,
  independent: Type.Boolean(),
  beginsSegment: Type.Boolean(),
  endsSegment: Type.Boolean(),
});

const NodeFeed = Type.Object({
  fileId: FileId,
  identity: Identity,
  trackId: Id,
  source: TrackSource,
  width: Pixels,
  height: Pixels,
  atMs: Ms,
  keyframe: Type.Boolean(),
  begins: Type.Boolean(),
  data: Base64,
});

const event = <T extends string, P extends TProperties>(type: T, properties: P) =>
  Type.Object({ type: Type.Literal(type), ...properties });
const ofRoom = <T extends string, P extends TProperties>(type: T, properties: P) =>
  event(type, { roomId: Id, ...properties });
const ofParticipant = <T extends string, P extends TProperties>(type: T, properties: P) =>
  ofRoom(type, { participantId: Id, identity: Identity, ...properties });
const ofRecording = <T extends string, P extends TProperties>(type: T, properties: P) =>
  ofRoom(type, { recordingId: Id, ...properties });

/** `roomsFound` is derived from the welcome frame. */
export type NodeEvent = Exclude<MediaEvent, { type: "roomsFound" }>;

export const NODE_EVENTS = {
  participantConnected: ofParticipant("participantConnected", {
    transport: Transport,
    remoteAddress: Address,
    connectMs: Type.Number(),
  }),
  participantDisconnected: ofParticipant("participantDisconnected", { reason: Failure }),
  participantReconnected: ofParticipant("participantReconnected", { transport: Transport, remoteAddress: Address }),
  participantFailed: ofParticipant("participantFailed", { reason: Failure }),
  iceStateChanged: ofParticipant("iceStateChanged", {
    state: literals(["new", "checking", "connected", "disconnected", "failed", "closed"]),
  }),
  dtlsStateChanged: ofParticipant("dtlsStateChanged", {
    state: literals(["new", "connecting", "connected", "failed", "closed"]),
  }),
  trackPublished: ofParticipant("trackPublished", { track: NodeTrack }),
  trackUnpublished: ofParticipant("trackUnpublished", { trackId: Id }),
  trackMuted: ofParticipant("trackMuted", { trackId: Id }),
  trackUnmuted: ofParticipant("trackUnmuted", { trackId: Id }),
  speakersChanged: ofRoom("speakersChanged", {
    speakers: Type.Array(Type.Object({ identity: Identity, level: Type.Number({ minimum: 0, maximum: 1 }) }), {
      maxItems: 1_000,
    }),
  }),
  layersWanted: ofParticipant("layersWanted", { trackId: Id, layers: Type.Array(Layer, { maxItems: 3 }) }),
  codecsWanted: ofParticipant("codecsWanted", { trackId: Id, codecs: Type.Array(BackupCodec, { maxItems: 2 }) }),
  subscriptionChanged: ofParticipant("subscriptionChanged", {
    trackId: Id,
    layer: nullable(Layer),
    paused: Type.Boolean(),
    reason: DeliveryReason,
  }),
  recordingFileStarted: ofRecording("recordingFileStarted", { file: NodeRecordedFile }),
  recordingFileEnded: ofRecording("recordingFileEnded", { file: NodeRecordedFile }),
  recordingProgress: ofRecording("recordingProgress", { files: Type.Array(NodeRecordedFile, { maxItems: 10_000 }) }),
  recordingPart: ofRecording("recordingPart", { part: NodePart }),
  recordingFeed: ofRecording("recordingFeed", { feed: NodeFeed }),
  recordingTrackOmitted: ofRecording("recordingTrackOmitted", { identity: Identity, trackId: Id }),
  recordingNotStreamable: ofRecording("recordingNotStreamable", { identity: Identity, codec: Codec }),
  recordingSlow: ofRecording("recordingSlow", {}),
  recordingEnded: ofRecording("recordingEnded", {}),
  recordingFailed: ofRecording("recordingFailed", { reason: Type.String() }),
  voicesChanged: ofParticipant("voicesChanged", { voices: Type.Record(text(32), Identity, { maxProperties: 64 }) }),
  qualityChanged: ofParticipant("qualityChanged", { quality: Quality }),
  mediaStalled: ofParticipant("mediaStalled", {}),
  mediaFlows: ofParticipant("mediaFlows", {}),
  dataDropped: ofParticipant("dataDropped", {
    messages: Count,
    reason: DataDropReason,
    reader: Type.Optional(Identity),
  }),
  requestAnswered: ofParticipant("requestAnswered", {
    requestId: Type.String({ maxLength: 64 }),
    packet: Type.String({ maxLength: DATA_FRAME_MAX_BYTES * 2 }),
  }),
  dataBehind: ofParticipant("dataBehind", { reader: Identity, bytes: Count }),
  relayedDataDropped: ofRoom("relayedDataDropped", {
    from: Identity,
    messages: Count,
    reason: DataDropReason,
    reader: Identity,
  }),
  relayedDataBehind: ofRoom("relayedDataBehind", { from: Identity, reader: Identity, bytes: Count }),
  transportStats: ofParticipant("transportStats", { stats: TransportStats }),
  data: ofRoom("data", {
    from: nullable(Identity),
    topic: Type.Optional(text(1_024)),
    payload: text(4 * DATA_FRAME_MAX_BYTES),
    recipients: Type.Array(Id, { maxItems: ROOM_MEMBERS }),
  }),
  linkChanged: event("linkChanged", {
    linkId: Id,
    state: LinkState,
    rttMs: NullableNumber,
    lossPercent: Type.Optional(NullableNumber),
    limitBps: Type.Optional(NullableNumber),
  }),
  relayOffered: event("relayOffered", { track: RelayedTrack }),
  relayMuted: ofRoom("relayMuted", { linkId: Id, trackId: Id, muted: Type.Boolean() }),
  relayEnded: ofRoom("relayEnded", { linkId: Id, trackId: Id }),
  relayData: event("relayData", { data: RelayedData }),
  workerCrashed: event("workerCrashed", {
    worker: nullable(Count),
    rooms: Type.Array(
      Type.Object({
        roomId: Id,
        participantIds: Type.Array(Id, { maxItems: ROOM_MEMBERS }),
        remains: Type.Optional(Type.Boolean()),
        recordingEnds: Type.Optional(Type.Boolean()),
      }),
      { maxItems: ROOM_MEMBERS },
    ),
  }),
} satisfies { [T in NodeEvent["type"]]: TObject & { static: Extract<NodeEvent, { type: T }> } };

const Seq = Type.Integer({ minimum: 0 });

/** Frames by their `type`; the content of events and responses is checked with its own schema. */
export const NODE_FRAMES = {
  welcome: event("welcome", {
    resumed: Type.Boolean(),
    lastCall: Count,
    rooms: Type.Array(NodeRoom, { maxItems: ROOM_MEMBERS }),
    links: Type.Optional(Type.Array(OpenedLink, { maxItems: ROOM_MEMBERS })),
    media: Type.Optional(
      Type.Object({
        announce: Type.Array(Address, { maxItems: 64 }),
        ports: Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), { maxItems: 1_024 }),
      }),
    ),
  }),
  pong: event("pong", { sentAtMs: Type.Optional(Type.Number()), clockMs: Type.Optional(Type.Number()) }),
  closing: event("closing", {}),
  event: event("event", { seq: Seq, event: Type.Unknown() }),
  answer: event("answer", { seq: Seq, id: Count, response: Type.Optional(Type.Unknown()) }),
  error: event("error", { seq: Seq, id: Count, code: nullable(text(64)), message: Type.String() }),
};
export type NodeFrame = { [T in keyof typeof NODE_FRAMES]: Static<(typeof NODE_FRAMES)[T]> }[keyof typeof NODE_FRAMES];

/** Methods without a result; the content of their responses is ignored. */
type VoidMethod = { [M in MediaMethod]: MediaResponse<M> extends void ? M : never }[MediaMethod];
type MethodWithResult = Exclude<MediaMethod, VoidMethod>;

export const NODE_RESPONSES = {
  negotiate: Type.Object({
    sdp: text(8 * SDP_MAX_BYTES),
    tracks: Type.Array(Type.Object({ clientTrackId: text(1_024), trackId: Id }), { maxItems: 1_000 }),
  }),
  flight: nullable(FlightDump),
  linkPoint: LinkPoint,
  room: nullable(NodeRoom),
  rooms: Type.Array(Type.Object({ roomId: Id, participants: Count }), { maxItems: ROOM_MEMBERS }),
  load: Type.Object({
    rooms: Count,
    participants: Count,
    cpuPercent: NullableNumber,
    memoryPercent: NullableNumber,
    networkInBps: Type.Number(),
    networkOutBps: Type.Number(),
    packetsIn: Type.Number(),
    packetsOut: Type.Number(),
    nacksIn: Type.Number(),
    nacksOut: Type.Number(),
    keyframesIn: Type.Number(),
    keyframesOut: Type.Number(),
    relays: Type.Optional(Type.Object({ links: Count, streams: Count })),
    refused: Type.Record(text(64), Type.Number(), { maxProperties: 256 }),
  }),
} satisfies { [M in MethodWithResult]: TSchema & { static: MediaResponse<M> } };
