import type { ChatMemberRole } from "../../protocol/chat-records.ts";
import type { ChatScope } from "../../protocol/enums.ts";
import { ApiError, type ErrorCode, invalid } from "../../protocol/errors.ts";
import type { ChatCaller } from "./caller.ts";
import { given } from "./limits.ts";
import type { ConversationStore } from "./store/conversation.store.ts";
import type { ConversationRow, MemberRow } from "./store/conversation.table.ts";
import type { MemberStore } from "./store/member.store.ts";
import type { MessageStore } from "./store/message.store.ts";
import type { MessageRow } from "./store/message.table.ts";

const SCOPES_OF_ROLE: Record<ChatMemberRole, readonly ChatScope[]> = {
  MEMBER: ["chat:read", "chat:send"],
  MODERATOR: ["chat:read", "chat:send", "chat:moderate"],
  ADMIN: ["chat:read", "chat:send", "chat:moderate", "chat:manage"],
};

/** One caller in one conversation. `userId` is null for a server: it may do everything, for anyone. */
export type Access =
  | { kind: "server"; conversation: ConversationRow; userId: null; member: null }
  | { kind: "user"; conversation: ConversationRow; userId: string; member: MemberRow; scopes: readonly ChatScope[] };

export type MessageAccess = { access: Access; message: MessageRow };

export function accessRules(stores: {
  conversations: ConversationStore;
  members: MemberStore;
  messages: MessageStore;
}) {
  const { conversations, members, messages } = stores;

  /** What is not theirs does not exist for them: `missing` is the 404 that fits the route. */
  function enter(
    caller: ChatCaller,
    conversation: ConversationRow | null,
    scope: ChatScope,
    missing: ErrorCode,
  ): Access {
    const theirs = conversation?.projectId === caller.projectId && conversation.environment === caller.environment;
    if (!conversation || !theirs) throw new ApiError(missing);
    if (caller.kind === "apiKey") return serverIn(conversation);

    const named = caller.conversations === null || caller.conversations.includes(conversation.id);
    const member = named ? members.find(conversation.id, caller.userId) : null;
    if (!member || member.status === "LEFT") throw new ApiError(missing);
    if (member.status === "BANNED") throw new ApiError("SVC_BANNED");
    const scopes = SCOPES_OF_ROLE[member.role].filter((held) => caller.scopes.includes(held));
    const access: Access = { kind: "user", conversation, userId: caller.userId, member, scopes };
    requireScope(access, scope);
    return access;
  }

  return {
    /** `reference` is a conv_ id, a uuid, an RTC room id or a name. */
    conversation: (caller: ChatCaller, reference: string, scope: ChatScope): Access =>
      enter(caller, conversations.resolve(caller, reference), scope, "SVC_CONVERSATION_NOT_FOUND"),

    /** The conversation that a record of it led to; `missing` is that record's 404. */
    within: (caller: ChatCaller, conversationId: string, scope: ChatScope, missing: ErrorCode): Access =>
      enter(caller, conversations.find(conversationId), scope, missing),

    /** For what is asked over all of a user's conversations: the token alone decides. */
    requireScope(caller: ChatCaller, scope: ChatScope): void {
      if (caller.kind === "apiKey" || caller.scopes.includes(scope)) return;
      throw new ApiError("SVC_PERMISSION_DENIED", `This needs ${scope}.`);
    },

    /** For another feature that acts in a conversation of its own, such as a live stream in its chat. */
    asServer(conversationId: string): Access {
      const conversation = conversations.find(conversationId);
      if (!conversation) throw new ApiError("SVC_CONVERSATION_NOT_FOUND");
      return serverIn(conversation);
    },

    message(caller: ChatCaller, messageId: string, scope: ChatScope): MessageAccess {
      const message = messages.find(messageId);
      if (!message) throw new ApiError("SVC_MESSAGE_NOT_FOUND");
      const conversation = conversations.find(message.conversationId);
      return { access: enter(caller, conversation, scope, "SVC_MESSAGE_NOT_FOUND"), message };
    },
  };
}

function serverIn(conversation: ConversationRow): Access {
  return { kind: "server", conversation, userId: null, member: null };
}

export function holds(access: Access, scope: ChatScope): boolean {
  return access.kind === "server" || access.scopes.includes(scope);
}

export function requireScope(access: Access, scope: ChatScope): void {
  if (!holds(access, scope)) throw new ApiError("SVC_PERMISSION_DENIED", `This needs ${scope} in the conversation.`);
}

/** Whose reaction or read position it is: a user's own, or that of the user whom a server names. */
export function actingUser(access: Access, named: string | undefined): string {
  if (access.kind === "user") return access.userId;
  const userId = given(named);
  if (userId === null) throw invalid("userId", "is required with an API key");
  return userId;
}

/** An archived conversation is read, not written. */
export function requireActive({ conversation }: Access): void {
  if (conversation.status === "ARCHIVED") throw new ApiError("SVC_CONVERSATION_ARCHIVED");
}

export function requireUnmuted(access: Access, now: number): void {
  const { mutedUntil = null } = access.member ?? {};
  if (mutedUntil === null || mutedUntil <= now) return;
  throw new ApiError("SVC_MUTED", undefined, { retryAfterSeconds: Math.ceil((mutedUntil - now) / 1000) });
}
