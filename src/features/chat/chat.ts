import type { OriginPolicy } from "../../kernel/http/origins.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { createAttachments } from "./attachments/attachments.ts";
import { type ChatServicesDeps, createChatServices } from "./chat-services.ts";
import { retentionService } from "./retention.ts";
import { searchService } from "./search/search.service.ts";
import { searchStore } from "./search/search.store.ts";
import { createChatSockets } from "./socket/chat-sockets.ts";

type ChatDeps = Omit<ChatServicesDeps, "claimAttachment"> & { originPolicy: (projectId: string) => OriginPolicy };

export type ChatService = ReturnType<typeof chatService>;

function chatService(runtime: Runtime, deps: ChatServicesDeps) {
  const services = createChatServices(runtime, deps);
  const sockets = createChatSockets(runtime, services, deps.isArchived);
  return {
    ...services,
    sockets,
    /** Removes expired tokens, old connections, rings and resolved reports; called by a recurring job. */
    async prune(): Promise<void> {
      await runtime.write((unit) => services.tokens.sweep(unit));
      await services.rings.prune();
      await services.reports.prune();
      while ((await sockets.connections.prune()) > 0);
    },
  };
}

export function createChat(runtime: Runtime, { originPolicy, ...deps }: ChatDeps) {
  const attachments = createAttachments(runtime, originPolicy);
  const search = searchService(runtime, searchStore(runtime.db));
  return {
    attachments,
    search,
    retention: retentionService(runtime, search),
    chat: chatService(runtime, { ...deps, claimAttachment: attachments.claim }),
  };
}
