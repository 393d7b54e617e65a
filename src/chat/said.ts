import type { Tenant } from "../kernel/tenant.ts";
import type { ConversationStore } from "./store/conversation.store.ts";
import type { MessageStore } from "./store/message.store.ts";

/** A message by itself, for who asks what was said while something else went on. */
export type Said = { messageId: string; senderId: string | null; text: string | null; at: number };

/** As many as a timeline can show: what was said after that is in the conversation. */
const MOST = 10_000;

/** What was said beside a room in a span of time, in order, without notes of events; nothing where no conversation is attached to it. */
export function saidBeside(deps: { conversations: ConversationStore; messages: MessageStore }) {
  return (tenant: Tenant, roomId: string, from: number, to: number): Said[] => {
    const conversation = deps.conversations.resolve(tenant, roomId);
    if (!conversation) return [];
    return deps.messages
      .sentBetween(conversation, from, to, MOST)
      .filter(({ type }) => type !== "event")
      .map(({ publicId, senderId, text, createdAt }) => ({ messageId: publicId, senderId, text, at: createdAt }));
  };
}
