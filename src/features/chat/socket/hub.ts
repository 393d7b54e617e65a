import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { type ChatSignal, MAX_BUFFERED_BYTES } from "../../../protocol/chat.ts";
import type { ChatEvent } from "../../../protocol/chat-events.ts";
import { CHAT_CLOSE_CODES } from "../../../protocol/close-codes.ts";
import type { ChatSocket } from "./chat-socket.ts";
import type { ConversationRef } from "./conversation-ref.ts";
import { createPresences } from "./presence.ts";
import { createTypists } from "./typing.ts";

type OpenConversation = { ref: ConversationRef; sockets: Set<ChatSocket>; bytesUnchecked: number };

/** Slow readers are looked for each time this much was published to a conversation, and by the sweep. */
const CHECK_EVERY_BYTES = 128 * 1024;
/** In a larger crowd, who came, went or read is not announced one by one: it would cost its square in frames. */
const MAX_SIGNALLED_SOCKETS = 200;

export type Hub = ReturnType<typeof createHub>;

/** Which sockets have which conversation open, and how what happens reaches them. */
export function createHub({ bus, config, now, sockets: network }: Runtime) {
  const sockets = new Set<ChatSocket>();
  const conversations = new Map<string, OpenConversation>();
  /** The same sockets, by whose they are. */
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

  const presences = createPresences(now, config.CHAT_PRESENCE_TTL_SECONDS * 1000, (ref, change) =>
    signal(ref.id, { type: "presence", conversationId: ref.publicId, ...change }),
  );
  const typists = createTypists(now, config.CHAT_TYPING_TTL_SECONDS * 1000, (ref, change) => {
    const { publicId: conversationId } = ref;
    if (change.type === "typing.stopped") signal(ref.id, { ...change, conversationId });
    else signal(ref.id, { type: change.type, conversationId, ...change.typing });
  });

  function forget(socket: ChatSocket, ref: ConversationRef, clean: boolean): void {
    const conversation = conversations.get(ref.id);
    if (!conversation?.sockets.delete(socket)) return;
    if (conversation.sockets.size === 0) conversations.delete(ref.id);
    typists.stop(ref, socket.userId);
    presences.leave(ref, socket.userId, clean);
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
      typists.stop(conversation.ref, event.message.senderId);
    if (event.type === "member.left") {
      // It is the last they hear. Sent to them alone: a topic forgets what is pending for whoever leaves it.
      for (const socket of conversation.sockets) {
        if (socket.userId !== event.userId) continue;
        socket.send(frame);
        leave(socket, conversation.ref);
      }
    }
    publish(conversation, frame);
  }

  bus.on("chatEvent", ({ conversation, event }) => deliver(conversation.id, event));
  bus.on("chatSignal", ({ conversationId, signal: content }) => signal(conversationId, content));
  bus.on("chatPersonal", ({ userIds, frame, ...tenant }) => {
    const text = JSON.stringify(frame);
    for (const userId of userIds) for (const socket of byUser.get(userKey(tenant, userId)) ?? []) socket.send(text);
  });
  bus.on("chatTokenRevoked", ({ tokenId }) => {
    for (const socket of sockets) {
      if (socket.tokenId === tokenId) socket.end(CHAT_CLOSE_CODES.unauthorized, "token revoked");
    }
  });

  return {
    sockets,
    presences,
    typists,
    leave,

    /** It belongs to the same user for as long as it is open. */
    opened(socket: ChatSocket): void {
      sockets.add(socket);
      const key = userKey(socket.caller, socket.userId);
      byUser.set(key, (byUser.get(key) ?? new Set()).add(socket));
    },

    /** Whether the user has a socket, whatever it has joined. */
    isOpen: (tenant: Tenant, userId: string): boolean => byUser.has(userKey(tenant, userId)),

    /** From now on the socket gets what is published; what happened before, its join has told it. */
    join(socket: ChatSocket, ref: ConversationRef): void {
      const conversation = conversations.get(ref.id) ?? { ref, sockets: new Set<ChatSocket>(), bytesUnchecked: 0 };
      conversations.set(ref.id, conversation);
      socket.joined.set(ref.id, ref);
      if (conversation.sockets.has(socket)) return;
      conversation.sockets.add(socket);
      socket.network.subscribe(topicOf(ref.id));
      presences.join(ref, socket.userId);
    },

    signOfLife(socket: ChatSocket): void {
      for (const ref of socket.joined.values()) presences.touch(ref, socket.userId);
    },

    /** The socket is gone. `clean`: its user meant to go. */
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
      presences.sweep();
      typists.sweep();
    },
  };
}

function userKey({ projectId, environment }: Tenant, userId: string): string {
  return `${projectId} ${environment} ${userId}`;
}

function topicOf(conversationId: string): string {
  return `chat ${conversationId}`;
}
