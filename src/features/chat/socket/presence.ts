import { iso, type Now } from "../../../kernel/time/clock.ts";
import type { Presence, PresenceStatus } from "../../../protocol/chat-records.ts";
import type { ConversationRef } from "./chat-socket.ts";

type Entry = {
  userId: string;
  status: PresenceStatus;
  /** The ISO time of the last change. */
  at: string;
  /** The number of the user's sockets that have joined the conversation. */
  joins: number;
  expiresAt: number;
  lastNotified: PresenceStatus;
};

type Conversation = { ref: ConversationRef; entries: Map<string, Entry>; present: number; changed: Set<Entry> };

/**
 * Tracks which users are present in which conversation. A user whose connection broke stays until the TTL, so that a reconnect
 * causes no event. Changes are announced in batches, without those that were reverted in the meantime, so that a thousand sockets
 * that reconnect together cause few notifications.
 */
export function createPresenceTracker(
  now: Now,
  ttlMs: number,
  notify: (ref: ConversationRef, change: { userId: string; status: PresenceStatus; at: string }) => void,
) {
  const conversations = new Map<string, Conversation>();

  function change(conversation: Conversation, entry: Entry, status: PresenceStatus): void {
    if (entry.status === status) return;
    conversation.present += (status === "offline" ? 0 : 1) - (entry.status === "offline" ? 0 : 1);
    entry.status = status;
    entry.at = iso(now());
    conversation.changed.add(entry);
  }

  /** An expired entry stays while a socket has joined the conversation, because the socket can renew it. */
  function removeIfGone({ entries, changed }: Conversation, entry: Entry): void {
    if (entry.joins === 0 && entry.status === "offline" && !changed.has(entry)) entries.delete(entry.userId);
  }

  return {
    join(ref: ConversationRef, userId: string): void {
      const conversation = conversations.get(ref.id) ?? { ref, entries: new Map(), present: 0, changed: new Set() };
      conversations.set(ref.id, conversation);
      let entry = conversation.entries.get(userId);
      if (!entry) {
        entry = { userId, status: "offline", at: "", joins: 0, expiresAt: 0, lastNotified: "offline" };
        conversation.entries.set(userId, entry);
      }
      entry.joins += 1;
      entry.expiresAt = now() + ttlMs;
      if (entry.status === "offline") change(conversation, entry, "online");
    },

    /** Without `clean`, the user may reconnect before others are notified. */
    leave({ id }: ConversationRef, userId: string, clean: boolean): void {
      const conversation = conversations.get(id);
      const entry = conversation?.entries.get(userId);
      if (!conversation || !entry) return;
      entry.joins = Math.max(0, entry.joins - 1);
      if (entry.joins > 0) return;
      if (clean) change(conversation, entry, "offline");
      removeIfGone(conversation, entry);
    },

    /** Renews the presence of a user, even after the presence expired. */
    touch({ id }: ConversationRef, userId: string): void {
      const conversation = conversations.get(id);
      const entry = conversation?.entries.get(userId);
      if (!conversation || !entry) return;
      entry.expiresAt = now() + ttlMs;
      if (entry.status === "offline") change(conversation, entry, "online");
    },

    set({ id }: ConversationRef, userId: string, status: "online" | "away"): void {
      const conversation = conversations.get(id);
      const entry = conversation?.entries.get(userId);
      if (conversation && entry && entry.status !== "offline") change(conversation, entry, status);
    },

    list(conversationId: string, limit = Number.POSITIVE_INFINITY): Presence[] {
      const list: Presence[] = [];
      for (const { userId, status, at } of conversations.get(conversationId)?.entries.values() ?? []) {
        if (list.length >= limit) break;
        if (status !== "offline") list.push({ userId, status, at });
      }
      return list;
    },
    get size() {
      return conversations.size;
    },
    count: (conversationId: string): number => conversations.get(conversationId)?.present ?? 0,

    /** Removes expired entries, and announces the changes since the last call. */
    sweep(): void {
      const at = now();
      for (const [id, conversation] of conversations) {
        const { ref, entries, changed } = conversation;
        for (const entry of entries.values()) {
          if (entry.expiresAt <= at) change(conversation, entry, "offline");
        }
        for (const entry of changed) {
          const { userId, status } = entry;
          changed.delete(entry);
          if (status !== entry.lastNotified) notify(ref, { userId, status, at: entry.at });
          entry.lastNotified = status;
          removeIfGone(conversation, entry);
        }
        if (entries.size === 0) conversations.delete(id);
      }
    },
  };
}
