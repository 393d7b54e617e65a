import type { ChatScope, Environment } from "../../protocol/enums.ts";
import type { Profile } from "../../protocol/room-records.ts";
import type { Author } from "../author.ts";
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
  updateMetadata: boolean;
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
  profile: Profile;
  /** Others hear nothing of it; it only watches. */
  hidden?: boolean;
  expiresAt: number;
};

/** A secret of one media node, and the only name it may come under. */
export type NodeKey = { publicId: string; name: string };

/** `key` is null for the secret that all nodes may share. */
export type NodeCaller = { kind: "node"; key: NodeKey | null };

export type Caller = ApiKeyCaller | SessionCaller | ChatTokenCaller | RtcTokenCaller | NodeCaller;

/** The same for what a server of the project does: a key has no person behind it, but the request has an address. */
export function authorOfKey({ caller, info }: { caller: ApiKeyCaller; info: RequestInfo }): Author {
  const request = { id: info.id, ip: info.ip, userAgent: info.userAgent };
  return { actor: null, request, environment: caller.environment };
}

/** The half of an audit entry that says who acts; a dashboard route's context is enough. */
export function authorOf(asking: { caller: SessionCaller; info: RequestInfo; environment?: Environment }): Author {
  const { caller, info, environment = "DEVELOPMENT" } = asking;
  return {
    actor: { id: caller.userId, email: caller.email },
    request: { id: info.id, ip: info.ip, userAgent: info.userAgent },
    environment,
  };
}
