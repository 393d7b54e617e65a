import type { ChatToken } from "../../../src/protocol/chat-records.ts";
import type { ConnectionState, IceServer, Permissions } from "../../../src/protocol/room-records.ts";

export type Environment = "DEVELOPMENT" | "PRODUCTION";

export type Project = {
  id: string;
  name: string;
  description: string | null;
  status: "ACTIVE" | "ARCHIVED";
  environment: Environment;
  allowedOrigins: string[];
  allowLocalhostOrigins: boolean;
  createdAt: string;
  updatedAt: string;
};

export type Room = {
  id: string;
  projectId: string;
  environment: Environment;
  name: string;
  region: string | null;
  status: "ACTIVE" | "CLOSED";
  /** Null: the media server could not be asked. */
  participantCount: number | null;
  serverName: string | null;
  createdAt: string;
  updatedAt: string;
  closedAt: string | null;
};

export type RtcToken = {
  token: string;
  tokenId: string;
  /** Hand it to the browser together with `token`. */
  endpoint: string;
  iceServers: IceServer[];
  roomId: string;
  roomName: string;
  participantIdentity: string;
  permissions: Permissions;
  metadata: string | null;
  expiresAt: string;
  createdAt: string;
};

export type NewLiveStream = {
  title: string;
  hostIdentity: string;
  description?: string;
  thumbnailUrl?: string;
  category?: string;
  tags?: string[];
  language?: string;
  visibility?: "PUBLIC" | "PRIVATE" | "AUTHENTICATED";
  metadata?: Record<string, unknown>;
  scheduledAt?: string;
};

export type LiveStream = {
  id: string;
  title: string;
  description: string | null;
  thumbnailUrl: string | null;
  category: string | null;
  tags: string[];
  language: string | null;
  visibility: "PUBLIC" | "PRIVATE" | "AUTHENTICATED";
  metadata: Record<string, unknown> | null;
  status: "CREATED" | "LIVE" | "ENDED";
  hostIdentity: string;
  roomId: string;
  conversationId: string;
  viewerCount: number | null;
  peakViewerCount: number;
  scheduledAt: string | null;
  startedAt: string | null;
  endedAt: string | null;
  createdAt: string;
  updatedAt: string;
};

export type StreamCredentials = {
  streamId: string;
  identity: string;
  role: "HOST" | "CO_HOST" | "VIEWER";
  rtc: RtcToken;
  chat: ChatToken;
};

export type Connection = {
  id: string;
  connectionId: string;
  state: ConnectionState;
  roomId: string | null;
  roomName: string | null;
  participantIdentity: string | null;
  serverName: string | null;
  reconnectCount: number;
  rttMs: number | null;
  jitterMs: number | null;
  packetLossPercent: number | null;
  joinTimeMs: number | null;
  startedAt: string;
  connectedAt: string | null;
  disconnectedAt: string | null;
  durationMs: number | null;
  disconnectReason: string | null;
};
