import type { Db } from "../../kernel/db/open.ts";
import { conversationStore } from "./conversations/conversation.store.ts";
import { memberStore } from "./conversations/member.store.ts";
import { mentionStore } from "./messages/mentions.ts";
import { messageStore } from "./messages/message.store.ts";
import { reactionStore } from "./messages/reaction.store.ts";

export type ChatStores = ReturnType<typeof chatStores>;

/** The stores that several services of chat share. */
export function chatStores(db: Db) {
  return {
    conversations: conversationStore(db),
    members: memberStore(db),
    messages: messageStore(db),
    reactions: reactionStore(db),
    mentions: mentionStore(db),
  };
}
