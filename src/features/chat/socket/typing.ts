import { iso, type Now } from "../../../kernel/time/clock.ts";
import type { Typing } from "../../../protocol/chat-records.ts";
import type { ConversationRef } from "./chat-socket.ts";

type Entry = { startedAt: number; expiresAt: number; notifiedUntil: number };

/** Further users who type in the same conversation are listed, but not notified: no client shows so many. */
const MAX_NOTIFIED_USERS = 20;

type TypingChange = { type: "typing.started"; typing: Typing } | { type: "typing.stopped"; userId: string };

/** Tracks which users are typing in which conversation; each entry expires by itself. */
export function createTypingTracker(
  now: Now,
  ttlMs: number,
  notify: (ref: ConversationRef, change: TypingChange) => void,
) {
  const conversations = new Map<string, { ref: ConversationRef; entries: Map<string, Entry> }>();
  const present = (userId: string, { startedAt, expiresAt }: Entry): Typing => ({
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
    if (entry.notifiedUntil > 0) notify(conversation.ref, { type: "typing.stopped", userId });
  }

  return {
    stop,

    /** Renews the TTL. Others are notified at the start, and again after half of the TTL. */
    start(ref: ConversationRef, userId: string): void {
      const at = now();
      const conversation = conversations.get(ref.id) ?? { ref, entries: new Map<string, Entry>() };
      conversations.set(ref.id, conversation);
      const entry = conversation.entries.get(userId) ?? { startedAt: at, expiresAt: 0, notifiedUntil: 0 };
      conversation.entries.set(userId, entry);
      entry.expiresAt = at + ttlMs;
      if (entry.notifiedUntil - at > ttlMs / 2 || conversation.entries.size > MAX_NOTIFIED_USERS) return;
      entry.notifiedUntil = entry.expiresAt;
      notify(ref, { type: "typing.started", typing: present(userId, entry) });
    },

    list(conversationId: string): Typing[] {
      const at = now();
      return [...(conversations.get(conversationId)?.entries ?? [])]
        .filter(([, { expiresAt }]) => expiresAt > at)
        .map(([userId, entry]) => present(userId, entry));
    },

    sweep(): void {
      const at = now();
      for (const { ref, entries } of conversations.values()) {
        for (const [userId, { expiresAt }] of entries) if (expiresAt <= at) stop(ref, userId);
      }
    },
  };
}
