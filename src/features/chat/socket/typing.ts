import { iso, type Now } from "../../../kernel/clock.ts";
import type { Typing } from "../../../protocol/chat-records.ts";
import type { ConversationRef } from "./conversation-ref.ts";

type Entry = { startedAt: number; expiresAt: number; toldUntil: number };
type Conversation = { ref: ConversationRef; entries: Map<string, Entry> };

/** Nobody reads "43 people are typing": past this many, further ones are kept but not announced. */
const ANNOUNCED_TYPISTS = 20;

type TypingChange = { type: "typing.started"; typing: Typing } | { type: "typing.stopped"; userId: string };

/** Who is typing where; each ends by itself. */
export function createTypists(now: Now, ttlMs: number, tell: (ref: ConversationRef, change: TypingChange) => void) {
  const conversations = new Map<string, Conversation>();
  const show = (userId: string, { startedAt, expiresAt }: Entry): Typing => ({
    userId,
    startedAt: iso(startedAt),
    expiresAt: iso(expiresAt),
  });

  function stop({ id }: ConversationRef, userId: string): void {
    const conversation = conversations.get(id);
    const entry = conversation?.entries.get(userId);
    if (!conversation || !entry) return;
    conversation.entries.delete(userId);
    if (conversation.entries.size === 0) conversations.delete(id);
    if (entry.toldUntil > 0) tell(conversation.ref, { type: "typing.stopped", userId });
  }

  return {
    stop,

    /** Goes on for another TTL. Others are told at the start, and again when what they were told is half over. */
    start(ref: ConversationRef, userId: string): void {
      const at = now();
      const conversation = conversations.get(ref.id) ?? { ref, entries: new Map<string, Entry>() };
      conversations.set(ref.id, conversation);
      const entry = conversation.entries.get(userId) ?? { startedAt: at, expiresAt: 0, toldUntil: 0 };
      conversation.entries.set(userId, entry);
      entry.expiresAt = at + ttlMs;
      if (entry.toldUntil - at > ttlMs / 2 || conversation.entries.size > ANNOUNCED_TYPISTS) return;
      entry.toldUntil = entry.expiresAt;
      tell(ref, { type: "typing.started", typing: show(userId, entry) });
    },

    list(conversationId: string): Typing[] {
      const at = now();
      return [...(conversations.get(conversationId)?.entries ?? [])]
        .filter(([, { expiresAt }]) => expiresAt > at)
        .map(([userId, entry]) => show(userId, entry));
    },

    sweep(): void {
      const at = now();
      for (const { ref, entries } of conversations.values()) {
        for (const [userId, { expiresAt }] of entries) if (expiresAt <= at) stop(ref, userId);
      }
    },
  };
}
