import { iso, type Now } from "../../../kernel/clock.ts";
import type { Presence, PresenceStatus } from "../../../protocol/chat-records.ts";
import type { ConversationRef } from "./conversation-ref.ts";

type Entry = {
  userId: string;
  status: PresenceStatus;
  /** Of the last change, as it is shown. */
  at: string;
  /** Sockets of this user that have the conversation open. */
  joins: number;
  /** When it ends without a sign of life. */
  until: number;
  /** What others were told last. */
  told: PresenceStatus;
};

type Conversation = { ref: ConversationRef; entries: Map<string, Entry>; present: number; changed: Set<Entry> };

type PresenceChange = { userId: string; status: PresenceStatus; at: string };

/**
 * Who is in which conversation now. A user whose connection broke stays until the TTL, so that a reconnect is no event;
 * changes are told in batches, and one that was undone meanwhile is not told at all: a thousand sockets that come back
 * at once cause no storm.
 */
export function createPresences(now: Now, ttlMs: number, tell: (ref: ConversationRef, change: PresenceChange) => void) {
  const conversations = new Map<string, Conversation>();

  function change(conversation: Conversation, entry: Entry, status: PresenceStatus): void {
    if (entry.status === status) return;
    conversation.present += (status === "offline" ? 0 : 1) - (entry.status === "offline" ? 0 : 1);
    entry.status = status;
    entry.at = iso(now());
    conversation.changed.add(entry);
  }

  /** Who expired is kept while a socket has the conversation open: a sign of life may come from it yet. */
  function forgetIfGone({ entries, changed }: Conversation, entry: Entry): void {
    if (entry.joins === 0 && entry.status === "offline" && !changed.has(entry)) entries.delete(entry.userId);
  }

  function opened(ref: ConversationRef): Conversation {
    const known = conversations.get(ref.id);
    if (known) return known;
    const made: Conversation = { ref, entries: new Map(), present: 0, changed: new Set() };
    conversations.set(ref.id, made);
    return made;
  }

  return {
    /** A socket of the user opened the conversation. */
    join(ref: ConversationRef, userId: string): void {
      const conversation = opened(ref);
      const at = now();
      let entry = conversation.entries.get(userId);
      if (!entry) {
        entry = { userId, status: "offline", at: "", joins: 0, until: 0, told: "offline" };
        conversation.entries.set(userId, entry);
      }
      entry.joins += 1;
      entry.until = at + ttlMs;
      if (entry.status === "offline") change(conversation, entry, "online");
    },

    /** `clean`: they meant to go. Otherwise they may be back before anyone needs to know. */
    leave({ id }: ConversationRef, userId: string, clean: boolean): void {
      const conversation = conversations.get(id);
      const entry = conversation?.entries.get(userId);
      if (!conversation || !entry) return;
      entry.joins = Math.max(0, entry.joins - 1);
      if (entry.joins > 0) return;
      if (clean) change(conversation, entry, "offline");
      forgetIfGone(conversation, entry);
    },

    /** A sign of life of a socket that has the conversation open; brings back who had expired. */
    touch({ id }: ConversationRef, userId: string): void {
      const conversation = conversations.get(id);
      const entry = conversation?.entries.get(userId);
      if (!conversation || !entry) return;
      entry.until = now() + ttlMs;
      if (entry.status === "offline") change(conversation, entry, "online");
    },

    set({ id }: ConversationRef, userId: string, status: "online" | "away"): void {
      const conversation = conversations.get(id);
      const entry = conversation?.entries.get(userId);
      if (conversation && entry && entry.status !== "offline") change(conversation, entry, status);
    },

    /** At most `limit` of them; `count` is all. */
    list(conversationId: string, limit = Number.POSITIVE_INFINITY): Presence[] {
      const shown: Presence[] = [];
      for (const { userId, status, at } of conversations.get(conversationId)?.entries.values() ?? []) {
        if (shown.length >= limit) break;
        if (status !== "offline") shown.push({ userId, status, at });
      }
      return shown;
    },
    /** Conversations that are kept in mind. */
    get size() {
      return conversations.size;
    },
    count: (conversationId: string): number => conversations.get(conversationId)?.present ?? 0,

    /** Ends what expired and tells what changed since the last time. */
    sweep(): void {
      const at = now();
      for (const [id, conversation] of conversations) {
        const { ref, entries, changed } = conversation;
        for (const entry of entries.values()) {
          if (entry.until <= at) change(conversation, entry, "offline");
        }
        for (const entry of changed) {
          const { userId, status } = entry;
          changed.delete(entry);
          if (status !== entry.told) tell(ref, { userId, status, at: entry.at });
          entry.told = status;
          forgetIfGone(conversation, entry);
        }
        if (entries.size === 0) conversations.delete(id);
      }
    },
  };
}
