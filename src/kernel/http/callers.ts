import type { ChatScope, Environment } from "../../protocol/enums.ts";
import type { RequestInfo } from "./request-info.ts";

/** Who is asking. One shape per kind of credential; `kind` tells them apart. */
export type ApiKeyCaller = {
  kind: "apiKey";
  keyId: string;
  publicId: string;
  projectId: string;
  environment: Environment;
};

export type SessionCaller = {
  kind: "session";
  sessionId: string;
  userId: string;
  email: string;
  isOperator: boolean;
};

export type ChatTokenCaller = {
  kind: "chatToken";
  tokenId: string;
  projectId: string;
  environment: Environment;
  userId: string;
  /** What the token allows; the member's role narrows it further per conversation. */
  scopes: ChatScope[];
  /** Conversation ids (uuid) it may touch; null means all that the user belongs to. */
  conversations: string[] | null;
  expiresAt: number;
};

export type RtcPermissions = {
  join: boolean;
  subscribe: boolean;
  publish: boolean;
  publishAudio: boolean;
  publishVideo: boolean;
  publishData: boolean;
};

export type RtcTokenCaller = {
  kind: "rtcToken";
  tokenId: string;
  projectId: string;
  environment: Environment;
  roomId: string;
  participantIdentity: string;
  permissions: RtcPermissions;
  metadata: string | null;
  expiresAt: number;
};

export type NodeCaller = { kind: "node" };

export type Caller = ApiKeyCaller | SessionCaller | ChatTokenCaller | RtcTokenCaller | NodeCaller;

/** A caller together with the request it came with, for audit and logs. */
export type Asking<C extends Caller = Caller> = { caller: C; info: RequestInfo };
