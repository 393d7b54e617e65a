import type { Tenant } from "../../kernel/tenant.ts";
import type { ConversationStore } from "./store/conversation.store.ts";
import type { MessageStore } from "./store/message.store.ts";

/** A message by itself, for who asks what was said while something else went on. */
export type Said = { seq: number; messageId: string; senderId: string | null; text: string | null; at: number };

/** Of what was said, that after a number, until it is so many, or so long. */
type Stretch = { afterSeq: number; limit: number; characters: number };

/** As much as one answer can show: what was said after that is in the conversation. */
const WHOLE: Stretch = { afterSeq: 0, limit: 10_000, characters: 1024 * 1024 };
const ROWS_AT_ONCE = 200;

/** What was said beside a room in a span of time, in order, without notes of events; nothing where no conversation is attached to it. */
export function saidBeside({ conversations, messages }: { conversations: ConversationStore; messages: MessageStore }) {
  return (tenant: Tenant, roomId: string, from: number, to: number, stretch = WHOLE): Said[] => {
    const conversation = conversations.resolve(tenant, roomId);
    if (!conversation) return [];
    const found: Said[] = [];
    let { afterSeq } = stretch;
    for (let characters = 0; found.length < stretch.limit; ) {
      const wanted = Math.min(ROWS_AT_ONCE, stretch.limit - found.length);
      const rows = messages.sentBetween(conversation, from, to, { afterSeq, limit: wanted });
      for (const { seq, publicId: messageId, senderId, text, createdAt: at } of rows) {
        found.push({ seq, messageId, senderId, text, at });
        afterSeq = seq;
        characters += text?.length ?? 0;
        if (characters >= stretch.characters) return found;
      }
      if (rows.length < wanted) break;
    }
    return found;
  };
}
