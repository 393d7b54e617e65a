import type { Tenant } from "../../kernel/tenant.ts";
import type { Environment } from "../../protocol/enums.ts";
import type { MediaTransport } from "../../protocol/media-node.ts";
import type { CallVerdict, ParticipantKind, Quality, Track } from "../../protocol/room-records.ts";
import type { LeaveReason } from "../../protocol/signaling.ts";

/**
 * The connection that an event is about; `sessionId` names one join, `connectionId` is the client's id for its
 * connection.
 */
type RtcConnection = {
  sessionId: string;
  connectionId: string;
  projectId: string;
  environment: Environment;
  roomId: string;
  roomName: string;
  participantIdentity: string;
  metadata: string | null;
  participantName: string | null;
  participantAttributes: Record<string, string>;
  participantKind: ParticipantKind;
  tokenId: string;
  serverName: string | null;
  sdk: string | null;
  userAgent: string | null;
  ipAddress: string;
  /** When the socket of the connection was opened. */
  startedAt: number;
  at: number;
};

/** Measured for every connection every few seconds; null means unknown. */
export type ConnectionStats = {
  rttMs: number | null;
  jitterMs: number | null;
  packetLossPercent: number | null;
  uplinkLossPercent?: number | null;
  downlinkLossPercent?: number | null;
  availableOutBps?: number | null;
  /** The server sends less than the participant subscribed to because no more fits into the available bandwidth. */
  heldBack?: boolean;
  /** How long packets from the participant wait in the server before they are forwarded. */
  uplinkWaitMs?: number | null;
  /** The CPU load of the media node during the measurement. */
  serverBusyPercent?: number | null;
  /** Measured on the links over which tracks from other media nodes arrive; null for a participant that receives none. */
  serverLinkLossPercent?: number | null;
  serverLinkRttMs?: number | null;
  /** The bitrate to which the link is limited; null while it has no limit. */
  serverLinkLimitBps?: number | null;
};

export type RtcConnectionChange =
  /** The participant is in the room, without media yet. `replaced`: in place of an earlier session of its identity. */
  | { type: "started"; mode: "new" | "replaced" }
  /** Media is received for the first time. */
  | { type: "connected"; transport: MediaTransport; remoteAddress: string; joinTimeMs: number }
  /** The socket (`signaling`) or the packets (`media`) stopped; the participant stays in the room. */
  | { type: "reconnecting"; path: "signaling" | "media"; reason: string }
  | { type: "reconnected"; path: "signaling" | "media" }
  | { type: "mediaFailed"; reason: string }
  | { type: "iceStateChanged"; state: string }
  | { type: "dtlsStateChanged"; state: string }
  | { type: "qualityChanged"; quality: Quality }
  /**
   * Connectivity checks are answered, but no media arrives although some is expected; `mediaFlows` follows when media
   * arrives again.
   */
  | { type: "mediaStalled" }
  | { type: "mediaFlows" }
  | { type: "trackPublished"; track: Track }
  | { type: "trackUnpublished"; trackId: string }
  | ({ type: "stats" } & ConnectionStats)
  /** `mediaKept`: this process stops, the participant stays on its media node, and the next process adopts it. */
  | { type: "left"; reason: LeaveReason; mediaKept?: true };

export type RtcConnectionEvent = RtcConnection & RtcConnectionChange;

/** A join that was rejected, or a socket that was closed before the join; unknown fields are null. */
export type RtcRefusedEvent = {
  code: string;
  message: string;
  closeCode: number;
  projectId: string | null;
  environment: Environment | null;
  roomId: string | null;
  participantIdentity: string | null;
  tokenId: string | null;
  connectionId: string | null;
  sdk: string | null;
  userAgent: string | null;
  ipAddress: string;
  startedAt: number;
  at: number;
};

/** The progress of a call, in the transaction that records it. */
export type CallProgress = Tenant & { roomId: string; at: number } & (
    | { type: "connected"; connection: RtcConnectionEvent }
    | {
        type: "left";
        sessionId: string;
        identity: string;
        joinedAt: number;
        /** Null when no media of the participant was received. */
        connectedAt: number | null;
        reason: LeaveReason;
        /** Null when the server stopped without notice and the departure was found afterwards. */
        connection: RtcConnectionEvent | null;
      }
    | { type: "ended" }
  );

/** What a client reports: a device error, the reason why its encoder is limited, or the participants whose keys it lacks. */
export type ClientReport = {
  deviceError?: string;
  limitation?: { reason: "cpu" | "bandwidth"; seconds: number };
  missingKeysOf?: string[];
};

declare module "../../kernel/bus.ts" {
  interface TransactionalEvents {
    callProgress: CallProgress;
  }
  interface BusEvents {
    rtcConnection: RtcConnectionEvent;
    rtcRefused: RtcRefusedEvent;
    /** The name, metadata, attributes, permissions or state of a participant may have changed. */
    participantUpdated: { sessionId: string };
    /** An error was classified for a connection that has a session. */
    connectionError: {
      connection: string;
      roomId: string | null;
      sessionId: string;
      serverName: string | null;
      code: string;
    };
    rtcReported: { roomId: string; connectionId: string; identity: string } & ClientReport;
    /** The verdict on a participant's last half minute changed. */
    liveVerdictChanged: { sessionId: string; verdict: CallVerdict };
  }
}
