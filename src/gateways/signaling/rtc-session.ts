import { createReplayRing, type ReplayRing } from "../../kernel/socket/replay-ring.ts";
import type { Socket } from "../../kernel/socket/sockets.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Placed, PlacedRoom } from "../../nodes/placement.ts";
import type { Environment } from "../../protocol/enums.ts";
import type { MediaState, TransportStats } from "../../protocol/media-node.ts";
import type { ConnectionState } from "../../protocol/observability.ts";
import type { Participant, ParticipantKind, Permissions, Track } from "../../protocol/room-records.ts";
import { type LeaveReason, type PushBody, RESUME_RING_FRAMES, type Roster } from "../../protocol/signaling.ts";

/** The connection to the client. Pushes are sent only in `attached`; `left` is final. */
type Link =
  | { state: "joining" }
  | { state: "attached"; socket: Socket }
  /** The socket is closed. Participant and media stay until the resume window ends. */
  | { state: "detached"; cancelExpiry: () => void }
  /**
   * WHIP and WHEP clients have no socket, nor do participants of other rooms who are forwarded to this one. The last offer is
   * unknown after a restart of the server.
   */
  | { state: "headless"; ice: { offer: string; etag: string } | null; forwarded?: true }
  | { state: "left"; reason: LeaveReason };

export type Client = {
  ipAddress: string;
  userAgent: string | null;
  sdk: string | null;
  /** When the socket was opened, from which the join time is measured. */
  openedAt: number;
};

/** One join. It outlives its sockets; a new join of the same identity is another session. */
export type RtcSession = {
  readonly id: string;
  readonly room: LiveRoom;
  /** The media node of the participant. */
  readonly site: Placed;
  readonly identity: string;
  readonly connectionId: string;
  readonly tokenId: string;
  readonly client: Client;
  readonly joinedAt: number;
  readonly pushes: ReplayRing;
  link: Link;
  resumeToken: string;
  permissions: Permissions;
  metadata: string | null;
  name: string | null;
  attributes: Record<string, string>;
  readonly kind: ParticipantKind;
  readonly hidden: boolean;
  /** A viewer who waits for the live stream to start, and gets no media. */
  waiting: boolean;
  readonly roster: Roster;
  /** The number of the join, which increases over all rooms. */
  order: number;
  /** The backend has sent this participant to another room. */
  moved: boolean;
  announced: boolean;
  /** The participant was announced and has published since it joined, so every participant knows it. */
  listed: boolean;
  /** The participant has offered tracks and counts towards MAX_PUBLISHERS_PER_ROOM. */
  publishes: boolean;
  cancelAnnouncement: () => void;
  /** The client has sent an offer, so the participant is announced only when media is connected. */
  wantsMedia: boolean;
  media: MediaState;
  stats: TransportStats | null;
  readonly tracks: Map<string, Track>;
  /** Returns, as JSON, what its gateway needs to continue the session in a newer process of this server. */
  gatewayState?: () => unknown;
  /**
   * Functions that the gateway of this participant provides for its tracks; LiveKit's clients choose who receives them.
   */
  publishing?: {
    mayReceive(receiver: RtcSession, trackId: string): boolean;
    received(receiver: RtcSession, trackId: string): void;
  };
};

export function publisherOf({ sessions }: LiveRoom, trackId: string): RtcSession | undefined {
  for (const session of sessions.values()) if (session.tracks.has(trackId)) return session;
  return undefined;
}

/** A node may only name tracks of its own participants. */
export const isForeignTrack = (session: RtcSession, trackId: string): boolean =>
  (publisherOf(session.room, trackId) ?? session) !== session;

export const mayReceive = (receiver: RtcSession, trackId: string, publisher: RtcSession): boolean =>
  publisher.publishing?.mayReceive(receiver, trackId) ?? true;

/** The tracks whose publishers do not let this participant receive them. */
export const withheldFrom = (receiver: RtcSession): string[] =>
  [...receiver.room.sessions.values()].flatMap((other) =>
    other.publishing ? [...other.tracks.keys()].filter((trackId) => !mayReceive(receiver, trackId, other)) : [],
  );

/**
 * Those of the tracks whose publishers decide who receives them, with their publishers. A request names hundreds of tracks, and
 * a room may have thousands of participants, so the room is searched once for all of them.
 */
function decidedAmong(
  { sessions }: LiveRoom,
  trackIds: Iterable<string>,
): [string, Required<RtcSession>["publishing"]][] {
  const named = new Set(trackIds);
  const decided: ReturnType<typeof decidedAmong> = [];
  if (named.size === 0) return decided;
  for (const { publishing, tracks } of sessions.values()) {
    if (!publishing) continue;
    for (const trackId of tracks.keys()) if (named.has(trackId)) decided.push([trackId, publishing]);
  }
  return decided;
}

/** Those of the tracks that this participant may not receive. */
export const withheldAmong = (receiver: RtcSession, trackIds: Iterable<string>): ReadonlySet<string> =>
  new Set(
    decidedAmong(receiver.room, trackIds).flatMap(([trackId, publisher]) =>
      publisher.mayReceive(receiver, trackId) ? [] : [trackId],
    ),
  );

/** Called when a participant has subscribed to the tracks. */
export function receivedAll(receiver: RtcSession, trackIds: Iterable<string>): void {
  for (const [trackId, publisher] of decidedAmong(receiver.room, trackIds)) publisher.received(receiver, trackId);
}

export type LiveRoom = PlacedRoom & {
  readonly name: string;
  readonly projectId: string;
  readonly environment: Environment;
  readonly record: boolean;
  /** Only end-to-end encrypted tracks can be published. */
  readonly encrypted: boolean;
  recording: boolean;
  /** The identities that all clients show large. */
  spotlight: readonly string[];
  stateVersion: number;
  /** The time of the hand that was raised last, so that each hand has another time. */
  lastHand: number;
  /** The sessions by identity, in the order in which they joined. */
  readonly sessions: Map<string, RtcSession>;
  /** The number of pending joins, during which neither the room nor a site of it is released. */
  pending: number;
};

/** A client that missed more gets a snapshot on resuming; one data message can be 64 KB long. */
const KEPT_CHARACTERS = 512 * 1024;

/** The latest pushes of one session, which are sent to a resuming client. */
export function createPushes(startSeq = 0): ReplayRing {
  return createReplayRing(RESUME_RING_FRAMES, { startSeq, keptCharacters: KEPT_CHARACTERS });
}

export function connectionState({ link, wantsMedia, media }: RtcSession): ConnectionState {
  switch (link.state) {
    case "left":
      return "DISCONNECTED";
    case "detached":
      return "RECONNECTING";
    case "joining":
    case "attached":
    case "headless":
      return wantsMedia ? MEDIA_STATES[media] : "CONNECTED";
  }
}

const MEDIA_STATES: Record<MediaState, ConnectionState> = {
  new: "CONNECTING",
  connecting: "CONNECTING",
  connected: "CONNECTED",
  disconnected: "RECONNECTING",
  failed: "FAILED",
};

export function presentParticipant(session: RtcSession): Participant {
  return {
    identity: session.identity,
    name: session.name,
    attributes: session.attributes,
    kind: session.kind,
    connectionId: session.connectionId,
    state: connectionState(session),
    permissions: session.permissions,
    metadata: session.metadata,
    joinedAt: iso(session.joinedAt),
    tracks: [...session.tracks.values()],
  };
}

/** A waiting viewer gets no media, regardless of its requests. */
export function permissionsAtNode({ waiting, permissions }: RtcSession): Permissions {
  return waiting ? { ...permissions, subscribe: false } : permissions;
}

/** The content of a push for a waiting viewer; null if the viewer does not get it. */
export function visibleWhileWaiting(body: PushBody): PushBody | null {
  switch (body.type) {
    case "track.published":
    case "track.unpublished":
    case "track.muted":
    case "track.unmuted":
    case "speakers.changed":
      return null;
    case "participant.joined":
    case "participant.updated":
      return { ...body, participant: withoutTracks(body.participant) };
    default:
      return body;
  }
}

export function withoutTracks(participant: Participant): Participant {
  return { ...participant, tracks: [] };
}

type RoomFields = {
  id: string;
  name: string;
  projectId: string;
  environment: Environment;
  region: string | null;
  record: boolean;
  encrypted: boolean;
  recording: boolean;
};

export function createSessionRegistry() {
  const rooms = new Map<string, LiveRoom>();
  const sessions = new Map<string, RtcSession>();
  let joins = 0;

  return {
    room: (roomId: string): LiveRoom | undefined => rooms.get(roomId),
    rooms: (): LiveRoom[] => [...rooms.values()],
    session: (sessionId: string): RtcSession | undefined => sessions.get(sessionId),
    sessions: (): RtcSession[] => [...sessions.values()],
    find: (roomId: string, identity: string): RtcSession | undefined => rooms.get(roomId)?.sessions.get(identity),

    roomFor(fields: RoomFields): LiveRoom {
      const known = rooms.get(fields.id);
      if (known) return known;
      const { id, name, projectId, environment, region, record, encrypted, recording } = fields;
      const room: LiveRoom = {
        id,
        name,
        projectId,
        environment,
        region,
        record,
        encrypted,
        recording,
        spotlight: [],
        stateVersion: 0,
        lastHand: 0,
        sessions: new Map(),
        sites: new Map(),
        pending: 0,
      };
      rooms.set(id, room);
      return room;
    },

    add(session: RtcSession): void {
      session.order = ++joins;
      sessions.set(session.id, session);
      session.room.sessions.set(session.identity, session);
    },

    remove(session: RtcSession): void {
      sessions.delete(session.id);
      const { sessions: present } = session.room;
      if (present.get(session.identity) === session) present.delete(session.identity);
    },

    removeRoomIfEmpty(room: LiveRoom): boolean {
      if (room.sessions.size > 0 || room.pending > 0 || rooms.get(room.id) !== room) return false;
      return rooms.delete(room.id);
    },
  };
}

export type SessionRegistry = ReturnType<typeof createSessionRegistry>;
