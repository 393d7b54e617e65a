import { randomBase62 } from "../../kernel/crypto/ids.ts";
import {
  type InstallationData,
  installationValue,
  setInstallationValue,
} from "../../kernel/data-directory/installation.ts";
import type { Db } from "../../kernel/db/open.ts";
import { columnsOf, inserter, reading } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import { MAX_REPLAYED_EVENTS } from "../../protocol/chat.ts";
import type { ChatEvent, ChatEventOf, ChatEventType } from "../../protocol/chat-events.ts";
import type { ConversationRow } from "./conversations/conversation.table.ts";
import { conversationEvents, type EventRow } from "./messages/message.table.ts";
import { presentMessage } from "./present.ts";
import type { ChatStores } from "./stores.ts";

type Content<T extends ChatEventType> = Omit<ChatEventOf<T>, "type" | "seq" | "conversationId" | "at">;

type NewEvent<T extends ChatEventType> = {
  seq: number;
  type: T;
  at: number;
  messageId: string | null;
  /** The row of a message that was just stored. */
  rowId: number | null;
  content: Content<T>;
};

type Recovery = { recovered: boolean; events: ChatEvent[] };

/** A longer replay would make the client itself a slow reader. */
const MAX_REPLAYED_CHARACTERS = 512 * 1024;
const NOTHING_MISSED: Recovery = { recovered: true, events: [] };
const NOT_RECOVERABLE: Recovery = { recovered: false, events: [] };

const EPOCH = "chat-epoch";
const newEpoch = () => randomBase62(12);

/** A restored backup gives the same event numbers to other events and therefore has another epoch. */
export function chatEpoch(data: InstallationData): string {
  return installationValue(data, EPOCH, newEpoch);
}

/** Called after a restore, so that clients that resume read the history again. */
export function renewChatEpoch(unit: Unit, db: Db): void {
  setInstallationValue(unit, db, EPOCH, newEpoch());
}

export type EventLog = ReturnType<typeof eventLog>;

/** Numbers every durable event of a conversation, in order, and replays events. */
export function eventLog({ db, bus, metrics }: Runtime, stores: ChatStores) {
  const { conversations, messages, reactions } = stores;
  const recorded = metrics.counter("stoa_chat_events_total", "Durable chat events by type", ["type"]);
  bus.on("chatEvent", ({ event }) => recorded.inc({ type: event.type }));
  const insert = inserter<EventRow>(db.$client, conversationEvents);
  const after = reading<EventRow, [string, number, number]>(
    db.$client,
    `SELECT ${columnsOf(conversationEvents)} FROM conversation_events
       WHERE conversation_id = ? AND seq > ? ORDER BY seq LIMIT ?`,
  );

  /** Records a new message, which gets its `seq` together with its ordinal. */
  function recordAs<T extends ChatEventType>(
    unit: Unit,
    conversation: ConversationRow,
    { seq, type, at, messageId, rowId, content }: NewEvent<T>,
  ): ChatEvent {
    const event = { type, seq, conversationId: conversation.publicId, at: iso(at), ...content } as ChatEvent;
    const stored = storedDetail(event);
    const detail = stored && JSON.stringify(stored);
    insert(unit, { conversationId: conversation.id, seq, type, at, messageId, detail });
    bus.publish(unit, "chatEvent", { conversation, event, rowId });
    return event;
  }

  /** An event shows the current state of its message; a message that retention removed appears as deleted. */
  function presentEvent(conversation: ConversationRow, row: EventRow): ChatEvent {
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
        return { ...base, type, message: presentMessage(conversation, message, stores), ...thread };
      case "message.updated":
        return { ...base, type, message: presentMessage(conversation, message, stores) };
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

  /** Events after `afterSeq`, oldest first. */
  function replay(conversation: ConversationRow, afterSeq: number, limit: number): ChatEvent[] {
    return after.all(conversation.id, afterSeq, limit).map((row) => presentEvent(conversation, row));
  }

  return {
    recordAs,
    replay,

    record<T extends ChatEventType>(
      unit: Unit,
      conversation: ConversationRow,
      type: T,
      at: number,
      messageId: string | null,
      contentOf: Content<T> | ((seq: number) => Content<T>),
    ): ChatEvent {
      const seq = conversations.nextSeq(unit, conversation.id);
      const content = typeof contentOf === "function" ? contentOf(seq) : contentOf;
      return recordAs(unit, conversation, { seq, type, at, messageId, rowId: null, content });
    },

    /** Returns the events after `since`, or tells the client to read the history again. */
    recover(conversation: ConversationRow, since: number | undefined, sameEpoch: boolean): Recovery {
      const { lastSeq, logStartSeq } = conversation;
      if (since === undefined) return NOTHING_MISSED;
      const inLog = since <= lastSeq && since >= logStartSeq;
      if (!sameEpoch || !inLog || lastSeq - since > MAX_REPLAYED_EVENTS) return NOT_RECOVERABLE;
      if (since === lastSeq) return NOTHING_MISSED;
      const events = replay(conversation, since, MAX_REPLAYED_EVENTS);
      return JSON.stringify(events).length <= MAX_REPLAYED_CHARACTERS ? { recovered: true, events } : NOT_RECOVERABLE;
    },
  };
}

/** The fields of an event that its message does not contain: the member, the conversation's fields, the reaction. */
function storedDetail(event: ChatEvent): Record<string, unknown> | null {
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
