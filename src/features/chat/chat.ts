import type { OriginPolicy } from "../../kernel/http/origins.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { attachmentParts } from "./attachments/attachments.ts";
import { retentionService } from "./retention.service.ts";
import { type ChatRulesDeps, chatRules } from "./rules.ts";
import { searchService } from "./search.service.ts";
import { createLive } from "./socket/live.ts";
import { retentionStore } from "./store/retention.store.ts";
import { searchStore } from "./store/search.store.ts";

type ChatDeps = Omit<ChatRulesDeps, "claimAttachment"> & { originPolicy: (projectId: string) => OriginPolicy };

export type ChatService = ReturnType<typeof chatService>;

function chatService(runtime: Runtime, deps: ChatRulesDeps) {
  const rules = chatRules(runtime, deps);
  const live = createLive(runtime, rules, deps.isArchived);
  return {
    ...rules,
    live,
    /** Forgets tokens that have expired, and connections and rings of long ago; called by a job. */
    async prune(): Promise<void> {
      await runtime.write((unit) => rules.tokens.sweep(unit));
      await rules.rings.prune();
      await rules.reports.prune();
      while ((await live.connections.prune()) > 0);
    },
  };
}

/** The feature as a whole: conversations and their socket, the files in them, searching them, and how they age. */
export function createChat(runtime: Runtime, { originPolicy, ...deps }: ChatDeps) {
  const attachments = attachmentParts(runtime, originPolicy);
  const search = searchService(runtime, searchStore(runtime.db));
  return {
    attachments,
    search,
    retention: retentionService(runtime, { store: retentionStore(runtime.db), search }),
    chat: chatService(runtime, { ...deps, claimAttachment: attachments.claim }),
  };
}
