/** Translates our records into LiveKit's protobuf messages. */
import {
  ClientInfo,
  ConnectionQuality,
  DisconnectReason,
  Encryption_Type,
  ICEServer,
  TrackSource as LivekitSource,
  ParticipantInfo,
  ParticipantInfo_Kind,
  ParticipantInfo_KindDetail,
  ParticipantInfo_State,
  ParticipantPermission,
  Room,
  ServerInfo,
  SimulcastCodecInfo,
  TrackInfo,
  TrackType,
  VideoQuality,
} from "@livekit/protocol";
import type { RoomRow } from "../../features/rooms/room.table.ts";
import { VERSION } from "../../kernel/version.ts";
import { mayPublish } from "../../protocol/may-publish.ts";
import { participantSid, roomSid, trackSid } from "../../protocol/media/livekit-sids.ts";
import type {
  IceServer,
  Layer,
  ParticipantKind,
  Quality,
  Track,
  TrackKind,
  TrackSource,
} from "../../protocol/room-records.ts";
import type { LeaveReason } from "../../protocol/signaling.ts";
import type { LiveRoom, RtcSession } from "../signaling/rtc-session.ts";

const SOURCES: Record<TrackSource, LivekitSource> = {
  camera: LivekitSource.CAMERA,
  microphone: LivekitSource.MICROPHONE,
  screenShare: LivekitSource.SCREEN_SHARE,
  screenShareAudio: LivekitSource.SCREEN_SHARE_AUDIO,
  other: LivekitSource.UNKNOWN,
};

export function sourceOf(source: LivekitSource): TrackSource {
  const found = Object.entries(SOURCES).find(([, theirs]) => theirs === source);
  return (found?.[0] as TrackSource | undefined) ?? "other";
}

export const kindOf = (type: TrackType): TrackKind | null =>
  type === TrackType.AUDIO ? "audio" : type === TrackType.VIDEO ? "video" : null;

/** Clients synchronise the tracks of one group: microphone with camera, screen share with its audio. */
export const groupOf = ({ source }: Pick<Track, "source">) =>
  source === "screenShare" || source === "screenShareAudio" ? "screen" : "camera";

export const LAYER_QUALITY: Record<Layer, VideoQuality> = {
  low: VideoQuality.LOW,
  medium: VideoQuality.MEDIUM,
  high: VideoQuality.HIGH,
};

const QUALITIES: Record<Quality, ConnectionQuality> = {
  excellent: ConnectionQuality.EXCELLENT,
  good: ConnectionQuality.GOOD,
  poor: ConnectionQuality.POOR,
  lost: ConnectionQuality.LOST,
};
export const qualityOf = (quality: Quality) => QUALITIES[quality];

export const KINDS: Record<ParticipantKind, ParticipantInfo_Kind> = {
  standard: ParticipantInfo_Kind.STANDARD,
  agent: ParticipantInfo_Kind.AGENT,
  ingress: ParticipantInfo_Kind.INGRESS,
  egress: ParticipantInfo_Kind.EGRESS,
  sip: ParticipantInfo_Kind.SIP,
  connector: ParticipantInfo_Kind.CONNECTOR,
  bridge: ParticipantInfo_Kind.BRIDGE,
};

export const LEAVE_REASONS: Record<LeaveReason, DisconnectReason> = {
  left: DisconnectReason.CLIENT_INITIATED,
  timeout: DisconnectReason.CONNECTION_TIMEOUT,
  replaced: DisconnectReason.DUPLICATE_IDENTITY,
  removed: DisconnectReason.PARTICIPANT_REMOVED,
  revoked: DisconnectReason.PARTICIPANT_REMOVED,
  room_closed: DisconnectReason.ROOM_DELETED,
  stream_ended: DisconnectReason.ROOM_CLOSED,
  failed: DisconnectReason.MEDIA_FAILURE,
  node_lost: DisconnectReason.SERVER_SHUTDOWN,
  restart: DisconnectReason.SERVER_SHUTDOWN,
  moved: DisconnectReason.MIGRATION,
};

function mimeOf(codec: string | null, kind: TrackKind): string {
  return codec === null ? (kind === "audio" ? "audio/opus" : "video/VP8") : `${kind}/${codec}`;
}

/** `published` is the publisher's own description of the track, if its client is LiveKit's. */
export function trackInfo(track: Track, published?: TrackInfo): TrackInfo {
  const mimeType = mimeOf(track.codec, track.kind);
  const details = published ?? {
    layers: [],
    codecs: track.kind === "video" ? [new SimulcastCodecInfo({ mimeType })] : [],
    stream: groupOf(track),
  };
  // The codec that the client announced may not be the one that was negotiated.
  const codecs = details.codecs.map((codec) => new SimulcastCodecInfo({ ...codec, mimeType }));
  return new TrackInfo({
    ...details,
    codecs,
    sid: trackSid(track.id),
    type: track.kind === "audio" ? TrackType.AUDIO : TrackType.VIDEO,
    name: track.name ?? "",
    muted: track.muted,
    simulcast: track.simulcast,
    source: SOURCES[track.source],
    encryption: track.encryption ? Encryption_Type.GCM : Encryption_Type.NONE,
    mimeType,
  });
}

export function permissionInfo(
  { id, permissions, hidden }: Pick<RtcSession, "id" | "permissions" | "hidden">,
  { isRecorder }: LivekitDetails,
): ParticipantPermission {
  const kinds: [TrackKind, LivekitSource[]][] = [
    ["audio", [LivekitSource.MICROPHONE, LivekitSource.SCREEN_SHARE_AUDIO]],
    ["video", [LivekitSource.CAMERA, LivekitSource.SCREEN_SHARE]],
  ];
  const { publishSources = [] } = permissions;
  const isWhole = permissions.publishAudio === permissions.publishVideo;
  const ofKinds = isWhole ? [] : kinds.flatMap(([kind, sources]) => (mayPublish(permissions, kind) ? sources : []));
  return new ParticipantPermission({
    canSubscribe: permissions.subscribe,
    canPublish: permissions.publish,
    canPublishData: permissions.publishData,
    canPublishSources: publishSources.length > 0 ? publishSources.map((source) => SOURCES[source]) : ofKinds,
    hidden,
    recorder: isRecorder(id),
    canUpdateMetadata: permissions.updateMetadata,
  });
}

/** Details that only LiveKit's clients report about themselves and their tracks. */
export type LivekitDetails = {
  client(sessionId: string): ClientInfo | undefined;
  track(trackId: string): TrackInfo | undefined;
  /** Whether the participant joined with the `recorder` grant: the room then counts as recorded. */
  isRecorder(sessionId: string): boolean;
};

export function participantInfo(session: RtcSession, details: LivekitDetails): ParticipantInfo {
  const client = details.client(session.id) ?? new ClientInfo();
  return new ParticipantInfo({
    sid: participantSid(session.id),
    identity: session.identity,
    state: session.media === "connected" ? ParticipantInfo_State.ACTIVE : ParticipantInfo_State.JOINED,
    tracks: [...session.tracks.values()].map((track) => trackInfo(track, details.track(track.id))),
    metadata: session.metadata ?? "",
    joinedAt: seconds(session.joinedAt),
    joinedAtMs: BigInt(session.joinedAt),
    name: session.name ?? "",
    permission: permissionInfo(session, details),
    isPublisher: session.tracks.size > 0,
    kind: KINDS[session.kind],
    kindDetails:
      session.link.state === "headless" && session.link.forwarded ? [ParticipantInfo_KindDetail.FORWARDED] : [],
    attributes: session.attributes,
    // Clients use newer messages towards a client that claims to know them, so each client's own claim is forwarded.
    clientProtocol: client.clientProtocol,
    capabilities: client.capabilities,
  });
}

/** LiveKit's rooms have no state besides their metadata, which is the application's if it sets any. */
function stateAsMetadata({ locked, lobby, captions }: RoomRow, live: LiveRoom | undefined): string {
  const spotlight = live?.spotlight ?? [];
  if (!locked && !lobby && !captions && spotlight.length === 0) return "";
  return JSON.stringify({ stoa: { spotlight, locked, lobby, captions } });
}

export function roomInfo(row: RoomRow, live: LiveRoom | undefined, { isRecorder }: LivekitDetails): Room {
  const { id, name, createdAt, metadata, emptyTimeout, departureTimeout, maxParticipants } = row;
  const sessions = [...(live?.sessions.values() ?? [])];
  const present = sessions.filter(({ hidden }) => !hidden);
  return new Room({
    sid: roomSid(id),
    name,
    creationTime: seconds(createdAt),
    creationTimeMs: BigInt(createdAt),
    numParticipants: present.length,
    numPublishers: present.filter(({ tracks }) => tracks.size > 0).length,
    activeRecording: (live?.recording ?? row.recording) || sessions.some(({ id }) => isRecorder(id)),
    metadata: metadata ?? stateAsMetadata(row, live),
    emptyTimeout: emptyTimeout ?? 0,
    departureTimeout,
    maxParticipants: maxParticipants ?? 0,
  });
}

export const iceServers = (servers: readonly IceServer[]): ICEServer[] =>
  servers.map(({ urls, username = "", credential = "" }) => new ICEServer({ urls, username, credential }));

/** The LiveKit version that this gateway implements; clients check it before they use newer messages. */
export const LIVEKIT_VERSION = "1.9.2";
const LIVEKIT_PROTOCOL = 16;
const AGENT_PROTOCOL = 1;

export const serverInfo = (region: string) =>
  new ServerInfo({
    version: LIVEKIT_VERSION,
    protocol: LIVEKIT_PROTOCOL,
    agentProtocol: AGENT_PROTOCOL,
    region,
    nodeId: "stoa",
    debugInfo: `stoa ${VERSION}`,
  });

export const seconds = (ms: number): bigint => BigInt(Math.floor(ms / 1_000));

/** The times of many messages of LiveKit; 0 for none. */
export const nanoseconds = (ms: number | null): bigint => BigInt(Math.round(ms ?? 0)) * 1_000_000n;
