import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { iso } from "../../../kernel/time/clock.ts";
import type { Reaction } from "../../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import { isDotSegment } from "../../../protocol/ids.ts";
import { type MessageAccess, requireActive, requireUnmuted } from "../access.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import type { EventLog } from "../event-log.ts";
import { fits } from "../input.ts";
import type { ChatStores } from "../stores.ts";
import type { MessageRow } from "./message.table.ts";

const MAX_EMOJI_CHARACTERS = 64;

export function reactionService({ bus, config, now }: Runtime, stores: ChatStores, log: EventLog) {
  const { conversations, messages, reactions: store } = stores;

  function recordChange(
    unit: Unit,
    type: "reaction.added" | "reaction.removed",
    { access, message }: MessageAccess,
    userId: string,
    emoji: string,
    at: number,
  ): Reaction {
    const { conversation } = access;
    const difference = type === "reaction.added" ? 1 : -1;
    messages.countReactions(unit, message.id, difference);
    conversations.countReactions(unit, conversation.id, difference);
    const { publicId: messageId } = message;
    const reactions = store.summary(message.id);
    const { seq } = log.record(unit, conversation, type, at, messageId, { messageId, userId, emoji, reactions });
    const { projectId, environment, publicId: conversationId } = conversation;
    const data = { messageId, conversationId, userId, emoji, at: iso(at), seq };
    bus.publish(unit, "webhook", { type, projectId, environment, at, data });
    return { messageId, emoji, userId, reactions };
  }

  function checkedEmoji(emoji: string): string {
    const checked = emoji.toWellFormed();
    if (checked === "" || isDotSegment(checked) || !fits(checked, MAX_EMOJI_CHARACTERS)) {
      throw invalid("emoji", `must have 1-${MAX_EMOJI_CHARACTERS} characters, and be neither '.' nor '..'`);
    }
    return checked;
  }

  return {
    /** `added` is false when the user already had this reaction. */
    add(unit: Unit, found: MessageAccess, userId: string, input: string): { reaction: Reaction; added: boolean } {
      const { access, message } = found;
      const emoji = checkedEmoji(input);
      const at = now();
      requireActive(access);
      requireUnmuted(access, at);
      if (message.deletedAt !== null) throw new ApiError("SVC_MESSAGE_DELETED");
      if (store.has(message.id, emoji, userId)) {
        const reactions = store.summary(message.id);
        return { reaction: { messageId: message.publicId, emoji, userId, reactions }, added: false };
      }
      if (message.reactionCount >= config.CHAT_MAX_REACTIONS_PER_MESSAGE) {
        throw new ApiError("SVC_REACTION_LIMIT_REACHED");
      }
      store.add(unit, message.id, emoji, userId, at);
      return { reaction: recordChange(unit, "reaction.added", found, userId, emoji, at), added: true };
    },

    /** Removes the reaction of a user who is erased, without sending a webhook. */
    erase(unit: Unit, conversation: ConversationRow, message: MessageRow, userId: string, emoji: string): void {
      if (!store.remove(unit, message.id, emoji, userId)) return;
      messages.countReactions(unit, message.id, -1);
      conversations.countReactions(unit, conversation.id, -1);
      const { publicId: messageId } = message;
      const reactions = store.summary(message.id);
      log.record(unit, conversation, "reaction.removed", now(), messageId, { messageId, userId, emoji, reactions });
    },

    remove(unit: Unit, found: MessageAccess, userId: string, input: string): void {
      requireActive(found.access);
      const emoji = input.toWellFormed();
      if (!store.remove(unit, found.message.id, emoji, userId)) return;
      recordChange(unit, "reaction.removed", found, userId, emoji, now());
    },
  };
}
