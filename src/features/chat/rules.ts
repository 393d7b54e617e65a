import { createRateLimiter } from "../../kernel/http/rate-limit.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { accessRules } from "./access.ts";
import { chatBudgets } from "./budgets.ts";
import { keepCallMessages } from "./calls/call-messages.ts";
import { ringService } from "./calls/ring.service.ts";
import { ringStore } from "./calls/ring.store.ts";
import { conversationService } from "./conversation.service.ts";
import { chatEpoch } from "./epoch.ts";
import { eventLog } from "./event-log.ts";
import { memberService } from "./member.service.ts";
import { type ClaimAttachment, messageService } from "./message.service.ts";
import { createPosting } from "./messages/posting.ts";
import { blockService } from "./moderation/block.service.ts";
import { blockStore } from "./moderation/block.store.ts";
import { createPreSend } from "./moderation/pre-send.ts";
import { reportService } from "./moderation/report.service.ts";
import { reportStore } from "./moderation/report.store.ts";
import { wordListService } from "./moderation/word-list.service.ts";
import { reactionService } from "./reaction.service.ts";
import { readStateService } from "./read-state.service.ts";
import { saidBeside } from "./said.ts";
import { conversationStore } from "./store/conversation.store.ts";
import { memberStore } from "./store/member.store.ts";
import { mentionStore } from "./store/mention.store.ts";
import { messageStore } from "./store/message.store.ts";
import { overviewStore } from "./store/overview.store.ts";
import { reactionStore } from "./store/reaction.store.ts";
import { chatTokenService } from "./token.service.ts";

export type ChatRulesDeps = {
  isArchived: (projectId: string) => boolean;
  requireOpenRoom: (tenant: Tenant, roomId: string) => void;
  claimAttachment: ClaimAttachment;
  /** Whether there is a call in the room now. */
  isCallOn: (roomId: string) => boolean;
  /** Whether the room is that of a live stream. */
  isStage: (roomId: string) => boolean;
};

/** The rules of chat, wired together. */
export function chatRules(runtime: Runtime, deps: ChatRulesDeps) {
  const { isArchived, requireOpenRoom, claimAttachment, isCallOn, isStage } = deps;
  const { config, db, now } = runtime;
  const conversations = conversationStore(db);
  const members = memberStore(db);
  const messages = messageStore(db);
  const reactions = reactionStore(db);
  const log = eventLog(runtime, { conversations, messages, reactions });
  const mentions = mentionStore(db);
  const posting = createPosting(runtime, { store: messages, conversations, reactions, mentions, log });
  const memberRules = memberService(runtime, { store: members, conversations, log });
  const blocks = blockService(runtime, { store: blockStore(db), members });
  const wordLists = wordListService(runtime);
  const rings = ringService(runtime, {
    store: ringStore(db),
    conversations,
    members,
    isCallOn,
    hasBlocked: blocks.hasBlocked,
  });
  keepCallMessages(runtime, { conversations, members, messages, posting, rings, isStage });
  const access = accessRules({ conversations, members, messages });
  const messageRules = messageService(runtime, {
    store: messages,
    conversations,
    members,
    reactions,
    mentions,
    log,
    posting,
    claimAttachment,
    blocks,
    wordLists,
    flag: (unit, conversation, message) => reports.flag(unit, conversation, message),
  });
  const reports = reportService(runtime, {
    store: reportStore(db),
    conversations,
    messages: messageRules,
    members: memberRules,
    asServer: access.asServer,
  });
  return {
    rings,
    blocks,
    wordLists,
    reports,
    preSend: createPreSend(runtime),
    access,
    budgets: chatBudgets(runtime, createRateLimiter(now, config.RATE_LIMIT_WINDOW_SECONDS)),
    epoch: chatEpoch(runtime),
    log,
    posting,
    conversations: conversationService(runtime, {
      store: conversations,
      members: memberRules,
      log,
      requireOpenRoom,
    }),
    members: memberRules,
    messages: messageRules,
    reactions: reactionService(runtime, { store: reactions, messages, conversations, log }),
    readStates: readStateService(runtime),
    tokens: chatTokenService(runtime, { conversations, isArchived }),
    overview: overviewStore(db),
    said: saidBeside({ conversations, messages }),
  };
}

export type ChatRules = ReturnType<typeof chatRules>;
