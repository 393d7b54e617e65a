import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { type ChatSignal, MAX_BUFFERED_BYTES } from "../../../protocol/chat.ts";
import type { ChatEvent } from "../../../protocol/chat-events.ts";
import { CHAT_CLOSE_CODES } from "../../../protocol/close-codes.ts";
import type { AccessRules } from "../access.ts";
import type { ChatSocket, ConversationRef } from "./chat-socket.ts";
import { createPresenceTracker } from "./presence.ts";
import { createTypingTracker } from "./typing.ts";

type OpenConversation = { ref: ConversationRef; sockets: Set<ChatSocket>; bytesUnchecked: number };

/**
 * Each time this many bytes have been published to a conversation, its sockets are checked for slow readers, in addition to the
 * periodic check.
 */
const CHECK_EVERY_BYTES = 128 * 1024;
/**
 * In a larger conversation, presence and read signals would cause a number of frames that grows with the square of its
 * size.
 */
const MAX_SIGNALLED_SOCKETS = 200;

export type Hub = ReturnType<typeof createHub>;

/** Knows which sockets have joined which conversation, and fans events out to them. */
export function createHub({ bus, config, now, sockets: network }: Runtime, { mayRead }: AccessRules) {
  const sockets = new Set<ChatSocket>();
  const conversations = new Map<string, OpenConversation>();
  const byUser = new Map<string, Set<ChatSocket>>();

  function publish(conversation: OpenConversation, frame: string): void {
    network.publish(topicOf(conversation.ref.id), frame);
    conversation.bytesUnchecked += frame.length;
    if (conversation.bytesUnchecked < CHECK_EVERY_BYTES) return;
    conversation.bytesUnchecked = 0;
    conversation.sockets.forEach(endIfSlow);
  }

  function endIfSlow(socket: ChatSocket): void {
    if (socket.network.bufferedBytes > MAX_BUFFERED_BYTES) socket.end(CHAT_CLOSE_CODES.slow, "slow reader");
  }

  function signal(conversationId: string, content: ChatSignal): void {
    const conversation = conversations.get(conversationId);
    if (!conversation) return;
    const frame = JSON.stringify(content);
    const personal = content.type === "presence" || content.type === "read";
    if (!personal || conversation.sockets.size <= MAX_SIGNALLED_SOCKETS) publish(conversation, frame);
    else for (const socket of conversation.sockets) if (socket.userId === content.userId) socket.send(frame);
  }

  const presence = createPresenceTracker(now, config.CHAT_PRESENCE_TTL_SECONDS * 1000, (ref, change) =>
    signal(ref.id, { type: "presence", conversationId: ref.publicId, ...change }),
  );
  const typing = createTypingTracker(now, config.CHAT_TYPING_TTL_SECONDS * 1000, (ref, change) => {
    const { publicId: conversationId } = ref;
    if (change.type === "typing.stopped") signal(ref.id, { ...change, conversationId });
    else signal(ref.id, { type: change.type, conversationId, ...change.typing });
  });

  function forget(socket: ChatSocket, ref: ConversationRef, clean: boolean): void {
    const conversation = conversations.get(ref.id);
    if (!conversation?.sockets.delete(socket)) return;
    if (conversation.sockets.size === 0) conversations.delete(ref.id);
    typing.stop(ref, socket.userId);
    presence.leave(ref, socket.userId, clean);
  }

  function leave(socket: ChatSocket, ref: ConversationRef): void {
    if (!socket.joined.delete(ref.id)) return;
    socket.network.unsubscribe(topicOf(ref.id));
    forget(socket, ref, true);
  }

  function deliver(conversationId: string, event: ChatEvent): void {
    const conversation = conversations.get(conversationId);
    if (!conversation) return;
    const frame = JSON.stringify(event);
    if (event.type === "message" && event.message.senderId !== null)
      typing.stop(conversation.ref, event.message.senderId);
    if (event.type === "member.left") {
      // The removed member gets the event directly, because a topic drops pending frames of a socket that unsubscribes.
      for (const socket of conversation.sockets) {
        if (socket.userId !== event.userId) continue;
        socket.send(frame);
        leave(socket, conversation.ref);
      }
    }
    publish(conversation, frame);
  }

  /** The open sockets of a user whose tokens may read the conversation. */
  const readers = (tenant: Tenant, userId: string, conversationId: string): ChatSocket[] =>
    [...(byUser.get(userKey(tenant, userId)) ?? [])].filter(({ caller }) => mayRead(caller, conversationId));

  bus.on("chatEvent", ({ conversation, event }) => deliver(conversation.id, event));
  bus.on("chatSignal", ({ conversationId, signal: content }) => signal(conversationId, content));
  bus.on("chatPersonal", ({ userIds, frame, conversationId, ...tenant }) => {
    const text = JSON.stringify(frame);
    for (const userId of userIds) for (const socket of readers(tenant, userId, conversationId)) socket.send(text);
  });
  bus.on("chatTokenRevoked", ({ tokenId }) => {
    for (const socket of sockets) {
      if (socket.tokenId === tokenId) socket.end(CHAT_CLOSE_CODES.unauthorized, "token revoked");
    }
  });

  return {
    sockets,
    presence,
    typing,
    leave,

    opened(socket: ChatSocket): void {
      sockets.add(socket);
      const key = userKey(socket.caller, socket.userId);
      byUser.set(key, (byUser.get(key) ?? new Set()).add(socket));
    },

    /** Whether the user has an open socket whose token may read the conversation. */
    isReading: (tenant: Tenant, userId: string, conversationId: string): boolean =>
      readers(tenant, userId, conversationId).length > 0,

    join(socket: ChatSocket, ref: ConversationRef): void {
      const conversation = conversations.get(ref.id) ?? { ref, sockets: new Set<ChatSocket>(), bytesUnchecked: 0 };
      conversations.set(ref.id, conversation);
      socket.joined.set(ref.id, ref);
      if (conversation.sockets.has(socket)) return;
      conversation.sockets.add(socket);
      socket.network.subscribe(topicOf(ref.id));
      presence.join(ref, socket.userId);
    },

    /** Leaves the conversations that a renewed token may not read. */
    leaveUnreadable(socket: ChatSocket): void {
      for (const ref of [...socket.joined.values()]) if (!mayRead(socket.caller, ref.id)) leave(socket, ref);
    },

    touch(socket: ChatSocket): void {
      for (const ref of socket.joined.values()) presence.touch(ref, socket.userId);
    },

    /** `clean`: the user left intentionally. */
    closed(socket: ChatSocket, clean: boolean): void {
      sockets.delete(socket);
      const key = userKey(socket.caller, socket.userId);
      const own = byUser.get(key);
      if (own?.delete(socket) && own.size === 0) byUser.delete(key);
      for (const ref of socket.joined.values()) forget(socket, ref, clean);
    },

    sweep(): void {
      const at = now();
      for (const socket of sockets) {
        endIfSlow(socket);
        socket.sweep(at);
      }
      presence.sweep();
      typing.sweep();
    },
  };
}

function userKey({ projectId, environment }: Tenant, userId: string): string {
  return `${projectId} ${environment} ${userId}`;
}

function topicOf(conversationId: string): string {
  return `chat ${conversationId}`;
}
