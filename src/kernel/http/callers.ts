import type { ChatScope, Environment } from "../../protocol/enums.ts";
import type { Permissions, Profile } from "../../protocol/room-records.ts";
import type { Author } from "../author.ts";
import type { RequestInfo } from "./request-info.ts";

/** The caller of a request: one type for each kind of credential, with `kind` as the discriminator. */
export type ApiKeyCaller = {
  kind: "apiKey";
  keyId: string;
  publicId: string;
  name: string;
  projectId: string;
  environment: Environment;
};

export type SessionCaller = {
  kind: "session";
  sessionId: string;
  userId: string;
  email: string;
  isOperator: boolean;
  /** A second factor that must be presented or set up before anything else. */
  missingFactor: "verify" | "setup" | null;
};

export type ChatTokenCaller = {
  kind: "chatToken";
  tokenId: string;
  projectId: string;
  environment: Environment;
  userId: string;
  /** The scopes of the token; the member's role restricts them further in each conversation. */
  scopes: ChatScope[];
  /** Conversations (uuids) to which the token is limited; null for all that the user belongs to. */
  conversations: string[] | null;
  /** Whether push subscriptions of the token outlive it. */
  keepsPush: boolean;
  expiresAt: number;
};

export type RtcTokenCaller = {
  kind: "rtcToken";
  tokenId: string;
  projectId: string;
  environment: Environment;
  roomId: string;
  participantIdentity: string;
  permissions: Permissions;
  metadata: string | null;
  /** The region of the media node that the participant prefers. */
  region?: string | null;
  profile: Profile;
  /** A participant that others do not see and that only subscribes. */
  hidden?: boolean;
  expiresAt: number;
};

/** A secret of one media node, and the only name under which the node may register with it. */
export type NodeKey = { publicId: string; name: string };

/** The caller of the node routes. `key` is null for the secret that all nodes may share. */
export type NodeCaller = { kind: "node"; key: NodeKey | null };

export type Caller = ApiKeyCaller | SessionCaller | ChatTokenCaller | RtcTokenCaller | NodeCaller;

export function authorOfKey({ caller, info }: { caller: ApiKeyCaller; info: RequestInfo }): Author {
  const request = { id: info.id, ip: info.ip, userAgent: info.userAgent };
  const { keyId: id, name, environment } = caller;
  return { actor: { type: "api_key", id, name }, request, environment };
}

/** The author of an action in the dashboard, from the context of its route. */
export function authorOf(context: { caller: SessionCaller; info: RequestInfo; environment?: Environment }): Author {
  const { caller, info, environment = "DEVELOPMENT" } = context;
  return {
    actor: { type: "user", id: caller.userId, email: caller.email },
    request: { id: info.id, ip: info.ip, userAgent: info.userAgent },
    environment,
  };
}
