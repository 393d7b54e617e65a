import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Message } from "../../../protocol/chat-records.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import type { EventLog } from "../event-log.ts";
import { presentMessage } from "../present.ts";
import type { ChatStores } from "../stores.ts";
import type { MessageRow } from "./message.table.ts";

type NewMessage = Pick<
  MessageRow,
  | "publicId"
  | "senderId"
  | "type"
  | "text"
  | "replyTo"
  | "threadRootId"
  | "clientMessageId"
  | "attachment"
  | "metadata"
  | "mentions"
>;

export type Posting = ReturnType<typeof createPosting>;

/** Stores new and changed messages and publishes them. Callers check the permissions. */
export function createPosting({ bus, metrics }: Runtime, stores: ChatStores, log: EventLog) {
  const { conversations, messages, mentions } = stores;
  const sent = metrics.counter("stoa_chat_messages_total", "Messages stored");

  function indexMentions(unit: Unit, row: Pick<MessageRow, "conversationId" | "ordinal" | "mentions">): void {
    if (row.mentions === null) return;
    for (const userId of JSON.parse(row.mentions) as string[])
      mentions.insert(unit, row.conversationId, userId, row.ordinal);
  }

  return {
    /** Returns the thread with its new number of replies; empty outside of threads, or when retention has removed the root. */
    countReply(unit: Unit, rootId: string | null, difference: number) {
      const replyCount = rootId === null ? null : messages.countReplies(unit, rootId, difference);
      return rootId === null || replyCount === null ? {} : { thread: { rootId, replyCount } };
    },

    /** `senderName`: if the caller knows it already. */
    post(unit: Unit, conversation: ConversationRow, at: number, input: NewMessage, senderName?: string): Message {
      const row: Omit<MessageRow, "id"> = {
        ...input,
        conversationId: conversation.id,
        ...conversations.nextMessage(unit, conversation, at),
        replyCount: 0,
        reactionCount: 0,
        pinnedAt: null,
        createdAt: at,
        updatedAt: at,
        editedAt: null,
        deletedAt: null,
        deletedBy: null,
      };
      const id = messages.insert(unit, row);
      indexMentions(unit, row);
      const message = presentMessage(conversation, { ...row, id }, stores, senderName);
      const thread = this.countReply(unit, row.threadRootId, 1);
      const content = { message, ...thread };
      log.recordAs(unit, conversation, {
        seq: row.seq,
        type: "message",
        at,
        messageId: row.publicId,
        rowId: id,
        content,
      });
      const { projectId, environment } = conversation;
      const data = { message, seq: row.seq };
      bus.publish(unit, "webhook", { type: "message.created", projectId, environment, at, data });
      sent.inc();
      return message;
    },

    /** `row` is the message in its new state. */
    change(unit: Unit, conversation: ConversationRow, row: MessageRow, at: number): Message {
      messages.edit(unit, row);
      mentions.remove(unit, row.conversationId, row.ordinal);
      indexMentions(unit, row);
      const message = presentMessage(conversation, row, stores);
      const { seq } = log.record(unit, conversation, "message.updated", at, row.publicId, { message });
      const { projectId, environment } = conversation;
      const data = { message, seq };
      bus.publish(unit, "webhook", { type: "message.updated", projectId, environment, at, data });
      return message;
    },
  };
}
