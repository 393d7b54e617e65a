import { iso } from "../../../kernel/time/clock.ts";
import { createReplayRing, type ReplayRing } from "../../../kernel/socket/replay-ring.ts";
import type { Socket } from "../../../kernel/socket/sockets.ts";
import type { Placed } from "../../../nodes/placement.ts";
import type { Environment } from "../../../protocol/enums.ts";
import type { MediaState, TransportStats } from "../../../protocol/media-node.ts";
import type { ConnectionState } from "../../../protocol/observability.ts";
import type { Participant, ParticipantKind, Permissions, Track } from "../../../protocol/room-records.ts";
import { type LeaveReason, RESUME_RING_FRAMES } from "../../../protocol/signaling.ts";

/** How a session reaches its client. Only `attached` can be spoken to; `left` is the end. */
export type Link =
  | { state: "joining" }
  | { state: "attached"; socket: Socket }
  /** The socket is gone, participant and media are kept until `cancelExpiry` is no longer called in time. */
  | { state: "detached"; cancelExpiry: () => void }
  /** WHIP and WHEP: a peer without a socket. */
  | { state: "headless" }
  | { state: "left"; reason: LeaveReason };

/** Who is at the other end, as far as it is known. */
export type Client = {
  ipAddress: string;
  userAgent: string | null;
  sdk: string | null;
  /** When the socket was opened; joining takes from here until media is connected. */
  openedAt: number;
};

/** One join. It outlives its sockets, and the same identity that joins anew is another session. */
export type RtcSession = {
  readonly id: string;
  readonly room: LiveRoom;
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
  /** Others never hear of it. */
  readonly hidden: boolean;
  /** A viewer before the start of the live stream: gets no media yet. */
  waiting: boolean;
  /** Others know of this participant. */
  announced: boolean;
  cancelAnnouncement: () => void;
  /** It has sent an offer, so it counts as joined only when media flows. */
  wantsMedia: boolean;
  media: MediaState;
  stats: TransportStats | null;
  readonly tracks: Map<string, Track>;
};

/** A room while somebody is in it, or about to be. */
export type LiveRoom = {
  readonly id: string;
  readonly name: string;
  readonly projectId: string;
  readonly environment: Environment;
  readonly region: string | null;
  /** Every call in it is recorded. */
  readonly record: boolean;
  /** Everybody in it is told. */
  recording: boolean;
  readonly sessions: Map<string, RtcSession>;
  /** Joins under way; they keep the room from being given up. */
  pending: number;
  placing: Promise<Placed> | null;
  placed: Placed | null;
};

/** Data that comes over the socket is up to 64 KB a message; past this much the client gets a snapshot on resuming. */
const KEPT_CHARACTERS = 512 * 1024;

/** The pushes of one session, as far back as it may resume. */
export function createPushes(startSeq = 0): ReplayRing {
  return createReplayRing(RESUME_RING_FRAMES, { startSeq, keptCharacters: KEPT_CHARACTERS });
}

export function stateOf({ link, wantsMedia, media }: RtcSession): ConnectionState {
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

/** What others see of it. */
export function participantOf(session: RtcSession): Participant {
  return {
    identity: session.identity,
    ...{ name: session.name, attributes: session.attributes, kind: session.kind },
    connectionId: session.connectionId,
    state: stateOf(session),
    permissions: session.permissions,
    metadata: session.metadata,
    joinedAt: iso(session.joinedAt),
    tracks: [...session.tracks.values()],
  };
}

/** What the node is told: whoever waits gets no media, whatever they ask for. */
export function permissionsAtNode({ waiting, permissions }: RtcSession): Permissions {
  return waiting ? { ...permissions, subscribe: false } : permissions;
}
