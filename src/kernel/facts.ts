import type { ChatPersonal, ChatSignal } from "../protocol/chat.ts";
import type { ChatEvent } from "../protocol/chat-events.ts";
import type { AuditActionName, Environment, LiveStreamStatus } from "../protocol/enums.ts";
import type { MediaTransport } from "../protocol/media-node.ts";
import type { CallVerdict, ParticipantKind, Quality, Track } from "../protocol/room-records.ts";
import type { LeaveReason } from "../protocol/signaling.ts";
import type { WebhookEventData, WebhookEventType } from "../protocol/webhook-events.ts";

/** Something a project's webhook endpoints may want to hear; joins the transaction that made it true. */
export type WebhookFact = {
  [Type in WebhookEventType]: {
    type: Type;
    projectId: string;
    environment: Environment;
    at: number;
    data: WebhookEventData[Type];
  };
}[WebhookEventType];

/** Who acts, and by which request: both are null for the command line. */
export type Author = {
  actor: { id: string; email: string } | null;
  request: { id: string; ip: string; userAgent: string | null } | null;
  /** The one that the request chose; keys and webhooks have an environment of their own. */
  environment: Environment;
};

export const COMMAND_LINE: Author = { actor: null, request: null, environment: "DEVELOPMENT" };

/** An administrative action. `metadata` names what changed, never a new value and never a secret. */
export type AuditFact = Author & {
  action: AuditActionName;
  projectId: string;
  resourceId: string;
  metadata: Record<string, unknown>;
  at: number;
};

/** What each fact about an RTC connection says; `sessionId` names one join, `connectionId` is the client's own name. */
type RtcConnectionSubject = {
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
  /** When its socket was opened. */
  startedAt: number;
  at: number;
};

/** What is measured of a connection every few seconds; null is unknown. */
type ConnectionFigures = {
  rttMs: number | null;
  jitterMs: number | null;
  packetLossPercent: number | null;
  /** Left out by whoever cannot tell. */
  uplinkLossPercent?: number | null;
  downlinkLossPercent?: number | null;
  availableOutBps?: number | null;
  /** Less is sent to it than it wants to see, because no more fits. */
  heldBack?: boolean;
  /** How long packets from it wait before they leave. */
  uplinkWaitMs?: number | null;
  /** How busy the server that measured it was meanwhile. */
  serverBusyPercent?: number | null;
};

export type RtcConnectionEvent =
  /** In the room; whether media follows is open. `replaced`: it took over from an earlier try of the same client. */
  | { type: "started"; mode: "new" | "replaced" }
  /** Media flows for the first time. */
  | { type: "connected"; transport: MediaTransport; remoteAddress: string; joinTimeMs: number }
  /** The socket (`signaling`) or the packets (`media`) stopped; the participant is kept. */
  | { type: "reconnecting"; path: "signaling" | "media"; reason: string }
  | { type: "reconnected"; path: "signaling" | "media" }
  | { type: "mediaFailed"; reason: string }
  | { type: "iceStateChanged"; state: string }
  | { type: "dtlsStateChanged"; state: string }
  | { type: "qualityChanged"; quality: Quality }
  /** Checks are answered, but no media arrives although some is due; then that it does again. */
  | { type: "mediaStalled" }
  | { type: "mediaFlows" }
  | { type: "trackPublished"; track: Track }
  | { type: "trackUnpublished"; trackId: string }
  | ({ type: "stats" } & ConnectionFigures)
  /** `mediaKept`: it is this process that goes; the participant stays where it is, and the next process finds it there. */
  | { type: "left"; reason: LeaveReason; mediaKept?: true };

export type RtcConnectionFact = RtcConnectionSubject & RtcConnectionEvent;

/** A join that was refused, or a socket that never got so far; what is not known of it is null. */
export type RtcRefusedFact = {
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

/** Facts that others write down in the same transaction: these are announced in a unit of work and never only told. */
export type JoinedFact = "webhook" | "audit" | "chatEvent" | "messageDeleted" | "recordingEnded";

/** Everything that features tell each other over the bus, by name. */
export type Facts = {
  webhook: WebhookFact;
  audit: AuditFact;
  /** An endpoint was made, changed, enabled, disabled or deleted. */
  webhookChanged: { projectId: string };
  /** An endpoint has deliveries that may be due: new ones, a redelivery, or it was enabled again. */
  webhookDeliveriesDue: { endpointId: string };
  /** One attempt to deliver an event is over. */
  webhookAttempted: { projectId: string; environment: Environment; delivered: boolean };
  /** A project was archived or its origins, name or keys changed: caches drop what they hold of it. */
  projectChanged: { projectId: string };
  /** Another process wrote to the database: caches drop everything. */
  changedElsewhere: Record<string, never>;
  apiKeyRevoked: { publicId: string; projectId: string };
  /** A media node registered or reported. */
  rtcServerSeen: { name: string; internalUrl: string };
  rtcConnection: RtcConnectionFact;
  /** Somebody has come into a room that records every call. */
  recordedRoomEntered: { roomId: string };
  rtcRefused: RtcRefusedFact;
  /** An error was classified for a connection that had got as far as a session. */
  rtcBlamed: { connection: string; roomId: string | null; sessionId: string; serverName: string | null; code: string };
  /** What a client said of itself: a device that failed, or what holds its encoder back. */
  rtcReported: {
    roomId: string;
    connectionId: string;
    identity: string;
    deviceError?: string;
    limitation?: { reason: "cpu" | "bandwidth"; seconds: number };
  };
  /** Why somebody's call is as it is has changed, as of the last half minute. */
  callExplained: { sessionId: string; verdict: CallVerdict };
  /** Out of the room for good: their tokens are revoked as well. */
  participantRemoved: { roomId: string; identity: string };
  rtcTokenRevoked: { tokenId: string; roomId: string };
  chatTokenRevoked: { tokenId: string };
  /** A durable event of a conversation; `on` it is fanned out, `within` it can be indexed. */
  chatEvent: {
    conversation: { id: string; publicId: string; projectId: string; environment: Environment };
    event: ChatEvent;
    /** Of a message that was just stored: its row. */
    rowId: number | null;
  };
  /** Something that is true now and never replayed, for whoever has the conversation open. `conversationId` is the uuid. */
  chatSignal: { conversationId: string; signal: ChatSignal };
  /** What a project does not want said has changed. */
  wordListChanged: { projectId: string; environment: Environment };
  /** For sockets of these users alone, whatever they have joined. */
  chatPersonal: { projectId: string; environment: Environment; userIds: readonly string[]; frame: ChatPersonal };
  /** Its text, metadata and attachment must be gone everywhere, in what is queued as well. Ids are public ones. */
  messageDeleted: {
    messageId: string;
    conversationId: string;
    projectId: string;
    environment: Environment;
    attachmentId: string | null;
  };
  /** A live stream was started or ended. Viewers who wait in its room get media from LIVE on. */
  streamChanged: { streamId: string; roomId: string; status: LiveStreamStatus };
  /** The room is being recorded from now on, or no longer. */
  recordingChanged: { roomId: string; active: boolean };
  /** Of one that holds anything: what counts as recorded time. */
  recordingEnded: { projectId: string; startedAt: number; endedAt: number };
  /**
   * Few commits come any more, after a storm of them: what is only kept to be quick can go, and what lies scattered be put
   * together.
   */
  calm: null;
  roomClosed: { roomId: string; projectId: string; environment: Environment; reason: "closed" | "stream_ended" };
};
