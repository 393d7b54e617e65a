import type { ApiKeyCaller, ChatTokenCaller } from "../../kernel/http/callers.ts";
import { sameTenant } from "../../kernel/tenant.ts";
import type { ChatMemberRole } from "../../protocol/chat-records.ts";
import type { ChatScope } from "../../protocol/enums.ts";
import { ApiError, type ErrorCode, invalid } from "../../protocol/errors.ts";
import type { ConversationRow, MemberRow } from "./conversations/conversation.table.ts";
import { emptyAsNull } from "./input.ts";
import type { MessageRow } from "./messages/message.table.ts";
import type { ChatStores } from "./stores.ts";

/** A server with an API key, or one user with a chat token. */
export type ChatCaller = ApiKeyCaller | ChatTokenCaller;

/** One caller in one conversation. A backend has no user id and may perform every action on behalf of any user. */
export type Access =
  | { kind: "server"; conversation: ConversationRow; userId: null; member: null }
  | { kind: "user"; conversation: ConversationRow; userId: string; member: MemberRow; scopes: readonly ChatScope[] };

/** The holder of a chat token, or of a push subscription that was made with one. */
export type TokenHolder = Pick<ChatTokenCaller, "projectId" | "environment" | "userId" | "scopes" | "conversations">;

export type MessageAccess = { access: Access; message: MessageRow };

const SCOPES_OF_ROLE: Record<ChatMemberRole, readonly ChatScope[]> = {
  MEMBER: ["chat:read", "chat:send"],
  MODERATOR: ["chat:read", "chat:send", "chat:moderate"],
  ADMIN: ["chat:read", "chat:send", "chat:moderate", "chat:manage"],
};

export type AccessRules = ReturnType<typeof accessRules>;

export function accessRules({ conversations, members, messages }: ChatStores) {
  /**
   * The membership of the token's user in a conversation; null for a conversation outside of the token's list or one
   * that the user has left.
   */
  function membership(holder: TokenHolder, conversation: ConversationRow): MemberRow | null {
    if (holder.conversations !== null && !holder.conversations.includes(conversation.id)) return null;
    const member = members.find(conversation.id, holder.userId);
    return member?.status === "LEFT" ? null : member;
  }

  /** A conversation that the caller does not belong to answers `missing`, as if it did not exist. */
  function enter(
    caller: ChatCaller,
    conversation: ConversationRow | null,
    scope: ChatScope,
    missing: ErrorCode,
  ): Access {
    if (!conversation || !sameTenant(caller, conversation)) throw new ApiError(missing);
    if (caller.kind === "apiKey") return serverAccess(conversation);

    const member = membership(caller, conversation);
    if (!member) throw new ApiError(missing);
    if (member.status === "BANNED") throw new ApiError("SVC_BANNED");
    const scopes = scopesOf(caller, member);
    const access: Access = { kind: "user", conversation, userId: caller.userId, member, scopes };
    requireScope(access, scope);
    return access;
  }

  return {
    /** `reference` is a conv_ id, a uuid, the id of an RTC room or a name. */
    conversation: (caller: ChatCaller, reference: string, scope: ChatScope): Access =>
      enter(caller, conversations.resolve(caller, reference), scope, "SVC_CONVERSATION_NOT_FOUND"),

    /** Finds the conversation of a record; `missing` is the 404 error of that record. */
    byId: (caller: ChatCaller, conversationId: string, missing: ErrorCode): Access =>
      enter(caller, conversations.find(conversationId), "chat:read", missing),

    /** Whether the server may send a frame, a ring or a Web Push about the conversation to the holder. */
    mayRead(holder: TokenHolder, conversationId: string): boolean {
      const conversation = conversations.find(conversationId);
      if (!conversation || !sameTenant(holder, conversation)) return false;
      const member = membership(holder, conversation);
      return member?.status === "ACTIVE" && scopesOf(holder, member).includes("chat:read");
    },

    requireScope: requireTokenScope,

    /** Checks a request that applies to all conversations of a user, such as a block. */
    requireAllConversations(caller: ChatCaller, scope: ChatScope): void {
      requireTokenScope(caller, scope);
      if (caller.kind === "apiKey" || caller.conversations === null) return;
      throw new ApiError("SVC_PERMISSION_DENIED", "This needs a token that is not limited to some conversations.");
    },

    /** Access for another feature to a conversation that it owns, such as the chat of a live stream. */
    asServer(conversationId: string): Access {
      const conversation = conversations.find(conversationId);
      if (!conversation) throw new ApiError("SVC_CONVERSATION_NOT_FOUND");
      return serverAccess(conversation);
    },

    message(caller: ChatCaller, messageId: string, scope: ChatScope): MessageAccess {
      const message = messages.find(messageId);
      if (!message) throw new ApiError("SVC_MESSAGE_NOT_FOUND");
      const conversation = conversations.find(message.conversationId);
      return { access: enter(caller, conversation, scope, "SVC_MESSAGE_NOT_FOUND"), message };
    },
  };
}

/** Checks a request over all conversations of a user, where only the token's scopes decide. */
function requireTokenScope(caller: ChatCaller, scope: ChatScope): void {
  if (caller.kind === "apiKey" || caller.scopes.includes(scope)) return;
  throw new ApiError("SVC_PERMISSION_DENIED", `This needs ${scope}.`);
}

function scopesOf(holder: TokenHolder, member: MemberRow): ChatScope[] {
  return SCOPES_OF_ROLE[member.role].filter((held) => holder.scopes.includes(held));
}

function serverAccess(conversation: ConversationRow): Access {
  return { kind: "server", conversation, userId: null, member: null };
}

export function hasScope(access: Access, scope: ChatScope): boolean {
  return access.kind === "server" || access.scopes.includes(scope);
}

export function requireScope(access: Access, scope: ChatScope): void {
  if (!hasScope(access, scope)) throw new ApiError("SVC_PERMISSION_DENIED", `This needs ${scope} in the conversation.`);
}

/** The user for whom a request acts: the token's user, or the user that a backend names. */
export function actingUser(caller: Access | ChatCaller, named: string | undefined): string {
  if (caller.kind === "user" || caller.kind === "chatToken") return caller.userId;
  const userId = emptyAsNull(named);
  if (userId === null) throw invalid("userId", "is required with an API key");
  return userId;
}

/** The guard lets chat tokens through, so that they get 403 here instead of 401. */
export function requireServer(caller: ChatCaller, action: string): ApiKeyCaller {
  if (caller.kind !== "apiKey") throw new ApiError("SVC_PERMISSION_DENIED", `Only a server ${action}.`);
  return caller;
}

/** An archived conversation can be read, but not changed. */
export function requireActive({ conversation }: Access): void {
  if (conversation.status === "ARCHIVED") throw new ApiError("SVC_CONVERSATION_ARCHIVED");
}

export function requireUnmuted(access: Access, now: number): void {
  const { mutedUntil = null } = access.member ?? {};
  if (mutedUntil === null || mutedUntil <= now) return;
  throw new ApiError("SVC_MUTED", undefined, { retryAfterSeconds: Math.ceil((mutedUntil - now) / 1000) });
}
