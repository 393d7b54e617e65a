import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ChatEvent, ChatEventOf, ChatEventType } from "../../protocol/chat-events.ts";
import type { ConversationStore } from "./conversations/conversation.store.ts";
import type { ConversationRow } from "./conversations/conversation.table.ts";
import type { MessageStore } from "./messages/message.store.ts";
import type { EventRow } from "./messages/message.table.ts";
import type { ReactionStore } from "./messages/reaction.store.ts";
import { showMessage } from "./present.ts";
import { eventStore } from "./store/event.store.ts";

type Stores = { conversations: ConversationStore; messages: MessageStore; reactions: ReactionStore };
type Content<T extends ChatEventType> = Omit<ChatEventOf<T>, "type" | "seq" | "conversationId" | "at">;

type Happened<T extends ChatEventType> = {
  seq: number;
  type: T;
  at: number;
  messageId: string | null;
  /** Of a message that is new. */
  rowId: number | null;
  content: Content<T>;
};

export type EventLog = ReturnType<typeof eventLog>;

/** The order of what happens in a conversation: gives every durable event its `seq`, and tells them again. */
export function eventLog({ db, bus, metrics }: Runtime, { conversations, messages, reactions }: Stores) {
  const store = eventStore(db);
  const recorded = metrics.counter("stoa_chat_events_total", "Durable chat events by type", ["type"]);
  bus.on("chatEvent", ({ event }) => recorded.inc({ type: event.type }));

  /** `seq` was taken already; a new message takes its own together with its ordinal. */
  function recordAs<T extends ChatEventType>(
    unit: Unit,
    conversation: ConversationRow,
    happened: Happened<T>,
  ): ChatEvent {
    const { seq, type, at, messageId, rowId, content } = happened;
    const event = { type, seq, conversationId: conversation.publicId, at: iso(at), ...content } as ChatEvent;
    const detail = detailOf(event);
    store.insert(unit, {
      conversationId: conversation.id,
      seq,
      type,
      at,
      messageId,
      detail: detail && JSON.stringify(detail),
    });
    bus.publish(unit, "chatEvent", { conversation, event, rowId });
    return event;
  }

  /** A message is shown as it is now; one that retention has removed since is shown as deleted. */
  function tell(conversation: ConversationRow, row: EventRow): ChatEvent {
    const { type, seq, messageId } = row;
    const base = { seq, conversationId: conversation.publicId, at: iso(row.at) };
    const detail = row.detail === null ? {} : (JSON.parse(row.detail) as Record<string, unknown>);
    if (messageId === null) return { ...base, type, ...detail } as ChatEvent;

    const message = messages.find(messageId);
    const deletion = {
      ...base,
      type: "message.deleted" as const,
      messageId,
      senderId: message?.senderId ?? null,
      deletedAt: iso(message?.deletedAt ?? row.at),
      deletedBy: message?.deletedBy ?? null,
    };
    if (!message) return deletion;
    const root = message.threadRootId === null ? null : messages.find(message.threadRootId);
    const thread = root ? { thread: { rootId: root.publicId, replyCount: root.replyCount } } : {};
    switch (type) {
      case "message":
        return { ...base, type, message: showMessage(conversation, message, reactions), ...thread };
      case "message.updated":
        return { ...base, type, message: showMessage(conversation, message, reactions) };
      case "message.deleted":
        return { ...deletion, ...thread };
      default:
        return {
          ...base,
          type,
          messageId,
          ...detail,
          reactions: message.reactionCount === 0 ? [] : reactions.summary(message.id),
        } as ChatEvent;
    }
  }

  return {
    recordAs,

    record<T extends ChatEventType>(
      unit: Unit,
      conversation: ConversationRow,
      type: T,
      at: number,
      messageId: string | null,
      content: Content<T> | ((seq: number) => Content<T>),
    ): ChatEvent {
      const seq = conversations.nextSeq(unit, conversation.id);
      const told = typeof content === "function" ? content(seq) : content;
      return recordAs(unit, conversation, { seq, type, at, messageId, rowId: null, content: told });
    },

    /** Events after `seq`, oldest first. */
    replay: (conversation: ConversationRow, afterSeq: number, limit: number): ChatEvent[] =>
      store.after(conversation.id, afterSeq, limit).map((row) => tell(conversation, row)),
  };
}

/** What cannot be read again from the message: who was a member, what the conversation was called, whose reaction. */
function detailOf(event: ChatEvent): Record<string, unknown> | null {
  switch (event.type) {
    case "message":
    case "message.updated":
    case "message.deleted":
      return null;
    case "reaction.added":
    case "reaction.removed":
      return { userId: event.userId, emoji: event.emoji };
    case "member.joined":
    case "member.left":
    case "member.updated":
      return { userId: event.userId, role: event.role, member: event.member };
    case "conversation.updated":
      return { conversation: event.conversation };
  }
}
