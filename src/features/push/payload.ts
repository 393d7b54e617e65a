import { iso } from "../../kernel/time/clock.ts";
import type { PushPayload } from "../../protocol/chat-records.ts";
import type { ChatService } from "../chat/chat.ts";
import type { DeliveryRow, SubscriptionRow } from "./push.table.ts";

/** Enough for a notification; the rest is in the conversation. */
const MAX_TEXT_CHARACTERS = 300;

/** What a browser is told, as it is at this moment; null when there is nothing left to tell. */
export function payloadOf(chat: ChatService, delivery: DeliveryRow, { userId }: SubscriptionRow): PushPayload | null {
  const conversation = chat.conversations.find(delivery.conversationId);
  if (!conversation) return null;
  const { unreadCount } = chat.readStates.unread(conversation, userId);
  const base = {
    ...{ type: delivery.kind, conversationId: conversation.publicId, conversationName: conversation.name },
    ...{ roomId: conversation.roomId, unreadCount, tag: delivery.topic },
  };
  if (delivery.kind === "ring" || delivery.kind === "missed_call") {
    const ring = chat.rings.find(delivery.subjectId);
    if (!ring || (delivery.kind === "ring" && ring.endedAt !== null)) return null;
    const { callerUserId, publicId, startedAt } = ring;
    return { ...base, senderId: callerUserId, text: null, messageId: null, ringId: publicId, at: iso(startedAt) };
  }
  const message = chat.messages.store.find(delivery.subjectId);
  if (!message || message.deletedAt !== null) return null;
  const text = message.text === null ? null : [...message.text].slice(0, MAX_TEXT_CHARACTERS).join("");
  const { senderId, publicId, createdAt } = message;
  return { ...base, senderId, text, messageId: publicId, ringId: null, at: iso(createdAt) };
}
