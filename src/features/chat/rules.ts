import { createRateLimiter } from "../../kernel/http/rate-limit.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { accessRules } from "./access.ts";
import { chatBudgets } from "./budgets.ts";
import { keepCallMessages } from "./calls/call-messages.ts";
import { ringService } from "./calls/ring.service.ts";
import { conversationService } from "./conversations/conversation.service.ts";
import { conversationStore } from "./conversations/conversation.store.ts";
import { memberService } from "./conversations/member.service.ts";
import { memberStore } from "./conversations/member.store.ts";
import { chatEpoch, eventLog } from "./event-log.ts";
import { createRoomMessages } from "./messages/history.ts";
import { mentionStore } from "./messages/mentions.ts";
import { type ClaimAttachment, messageService } from "./messages/message.service.ts";
import { messageStore } from "./messages/message.store.ts";
import { createPosting } from "./messages/posting.ts";
import { reactionService } from "./messages/reaction.service.ts";
import { reactionStore } from "./messages/reaction.store.ts";
import { readStateService } from "./messages/read-state.service.ts";
import { blockService } from "./moderation/block.service.ts";
import { createPreSend } from "./moderation/pre-send.ts";
import { reportService } from "./moderation/report.service.ts";
import { wordListService } from "./moderation/word-list.service.ts";
import { chatTokenService } from "./tokens/token.service.ts";

export type ChatRulesDeps = {
  isArchived: (projectId: string) => boolean;
  requireOpenRoom: (tenant: Tenant, roomId: string) => void;
  claimAttachment: ClaimAttachment;
  hasCall: (roomId: string) => boolean;
  isLiveStreamRoom: (roomId: string) => boolean;
};

export type ChatRules = ReturnType<typeof chatRules>;

/** All services of chat except its sockets, wired together. */
export function chatRules(runtime: Runtime, deps: ChatRulesDeps) {
  const { isArchived, requireOpenRoom, claimAttachment, hasCall, isLiveStreamRoom } = deps;
  const { config, db, now } = runtime;
  const conversations = conversationStore(db);
  const members = memberStore(db);
  const messages = messageStore(db);
  const reactions = reactionStore(db);
  const mentions = mentionStore(db);
  const access = accessRules({ conversations, members, messages });
  const log = eventLog(runtime, { conversations, messages, reactions });
  const posting = createPosting(runtime, { store: messages, conversations, reactions, mentions, log });
  const memberRules = memberService(runtime, { store: members, conversations, log });
  const blocks = blockService(runtime, members);
  const wordLists = wordListService(runtime);
  const rings = ringService(runtime, { conversations, members, hasCall, hasBlocked: blocks.hasBlocked });
  keepCallMessages(runtime, { conversations, members, messages, posting, rings, isLiveStreamRoom });
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
    conversations,
    messages: messageRules,
    members: memberRules,
    asServer: access.asServer,
  });
  return {
    access,
    blocks,
    budgets: chatBudgets(runtime, createRateLimiter(now, config.RATE_LIMIT_WINDOW_SECONDS)),
    conversations: conversationService(runtime, {
      store: conversations,
      members: memberRules,
      log,
      requireOpenRoom,
    }),
    epoch: chatEpoch(runtime),
    log,
    members: memberRules,
    messages: messageRules,
    posting,
    preSend: createPreSend(runtime),
    reactions: reactionService(runtime, { store: reactions, messages, conversations, log }),
    readStates: readStateService(runtime),
    reports,
    rings,
    roomMessages: createRoomMessages(conversations, messages),
    tokens: chatTokenService(runtime, { conversations, isArchived }),
    wordLists,
  };
}
