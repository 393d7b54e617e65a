import type { Message } from "../protocol/chat-records.ts";
import type { Runtime } from "../runtime.ts";
import type { MessageRow } from "./message.table.ts";
import type { SearchStore } from "./search.store.ts";
import { indexed, matchOf, scopeOf } from "./search.words.ts";

export type SearchService = ReturnType<typeof searchService>;

/** Follows every message in the transaction that changes it, so that the index is never ahead nor behind. */
export function searchService({ bus }: Runtime, store: SearchStore) {
  bus.within("chatEvent", ({ conversation, event }) => {
    switch (event.type) {
      case "message":
        add(conversation.id, event.message);
        break;
      case "message.updated":
        store.remove(event.message.id);
        add(conversation.id, event.message);
        break;
      case "message.deleted":
        store.remove(event.messageId);
        break;
    }
  });

  function add(conversationId: string, { id, text, attachment }: Message): void {
    const content = [text, attachment?.filename].filter((part) => part).join("\n");
    if (content !== "") store.insert(id, scopeOf(conversationId), indexed(content));
  }

  return {
    /** Messages of a conversation that hold every word, newest first; `beforeSeq` goes on where a page ended. */
    find(conversationId: string, typed: string, beforeSeq: number | null, limit: number): MessageRow[] {
      const match = matchOf(conversationId, typed);
      if (match === null) return [];
      return store.find(match, conversationId, beforeSeq ?? Number.MAX_SAFE_INTEGER, limit);
    },

    /** Retention removes a message without an event. */
    forget: store.remove,
  };
}
