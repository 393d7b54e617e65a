import { createRateLimiter } from "../../kernel/http/rate-limit.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { accessRules } from "./access.ts";
import { chatBudgets } from "./budgets.ts";
import { keepCallMessages } from "./calls/call-messages.ts";
import { ringService } from "./calls/ring.service.ts";
import { conversationService } from "./conversations/conversation.service.ts";
import { memberService } from "./conversations/member.service.ts";
import { chatEpoch, eventLog } from "./event-log.ts";
import { createRoomMessages } from "./messages/history.ts";
import { type ClaimAttachment, messageService } from "./messages/message.service.ts";
import { createPosting } from "./messages/posting.ts";
import { reactionService } from "./messages/reaction.service.ts";
import { readStateService } from "./messages/read-state.service.ts";
import { blockService } from "./moderation/block.service.ts";
import { createPreSend } from "./moderation/pre-send.ts";
import { reportService } from "./moderation/report.service.ts";
import { wordListService } from "./moderation/word-list.service.ts";
import { chatStores } from "./stores.ts";
import { chatTokenService } from "./tokens/token.service.ts";

export type ChatServicesDeps = {
  isArchived: (projectId: string) => boolean;
  openRoomId: (tenant: Tenant, reference: string) => string;
  claimAttachment: ClaimAttachment;
  hasCall: (roomId: string) => boolean;
  isLiveStreamRoom: (roomId: string) => boolean;
};

export type ChatWithoutSockets = ReturnType<typeof createChatServices>;

/** All services of chat except its sockets, wired together. */
export function createChatServices(runtime: Runtime, deps: ChatServicesDeps) {
  const { isArchived, openRoomId, claimAttachment, hasCall, isLiveStreamRoom } = deps;
  const { config, db, now } = runtime;
  const stores = chatStores(db);
  const access = accessRules(stores);
  const log = eventLog(runtime, stores);
  const posting = createPosting(runtime, stores, log);
  const members = memberService(runtime, stores, log);
  const blocks = blockService(runtime, stores.members);
  const wordLists = wordListService(runtime);
  const rings = ringService(runtime, {
    stores,
    hasCall,
    hasBlocked: blocks.hasBlocked,
    access,
  });
  keepCallMessages(runtime, { stores, posting, rings, isLiveStreamRoom });
  const messages = messageService(runtime, {
    stores,
    log,
    posting,
    claimAttachment,
    blocks,
    wordLists,
    flag: (unit, conversation, message) => reports.flag(unit, conversation, message),
  });
  const reports = reportService(runtime, {
    conversations: stores.conversations,
    messages,
    members,
    asServer: access.asServer,
  });
  return {
    access,
    blocks,
    budgets: chatBudgets(runtime, createRateLimiter(now, config.RATE_LIMIT_WINDOW_SECONDS)),
    conversations: conversationService(runtime, { store: stores.conversations, members, log, openRoomId }),
    epoch: chatEpoch(runtime),
    log,
    members,
    messages,
    posting,
    preSend: createPreSend(runtime),
    reactions: reactionService(runtime, stores, log),
    readStates: readStateService(runtime),
    reports,
    rings,
    roomMessages: createRoomMessages(stores),
    tokens: chatTokenService(runtime, { conversations: stores.conversations, isArchived }),
    wordLists,
  };
}
