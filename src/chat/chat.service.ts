import { createRateLimiter } from "../kernel/http/rate-limit.ts";
import type { Runtime } from "../runtime.ts";
import { accessRules } from "./access.ts";
import { chatBudgets } from "./budgets.ts";
import { conversationService } from "./conversation.service.ts";
import { conversationStore } from "./conversation.store.ts";
import { eventLog } from "./event-log.ts";
import { memberService } from "./member.service.ts";
import { memberStore } from "./member.store.ts";
import { type ClaimAttachment, messageService } from "./message.service.ts";
import { messageStore } from "./message.store.ts";
import { reactionStore } from "./reaction.store.ts";
import type { Tenant } from "./tenant.ts";
import { chatTokenService } from "./token.service.ts";

export type ChatDeps = {
  isArchived: (projectId: string) => boolean;
  requireOpenRoom: (tenant: Tenant, roomId: string) => void;
  claimAttachment: ClaimAttachment;
};

export type ChatService = ReturnType<typeof chatService>;

/** The parts of chat, wired together. */
export function chatService(runtime: Runtime, deps: ChatDeps) {
  const { db } = runtime;
  const stores = {
    conversations: conversationStore(db),
    members: memberStore(db),
    messages: messageStore(db),
    reactions: reactionStore(db),
  };
  const log = eventLog(runtime, stores);
  const members = memberService(runtime, { store: stores.members, conversations: stores.conversations, log });
  return {
    access: accessRules(stores),
    budgets: chatBudgets(runtime, createRateLimiter(runtime.now, runtime.config.RATE_LIMIT_WINDOW_SECONDS)),
    log,
    members,
    conversations: conversationService(runtime, {
      store: stores.conversations,
      members,
      log,
      requireOpenRoom: deps.requireOpenRoom,
    }),
    messages: messageService(runtime, {
      store: stores.messages,
      conversations: stores.conversations,
      reactions: stores.reactions,
      log,
      claimAttachment: deps.claimAttachment,
    }),
    tokens: chatTokenService(runtime, { conversations: stores.conversations, isArchived: deps.isArchived }),
  };
}
