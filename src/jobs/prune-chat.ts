import type { ChatService } from "../chat/chat.service.ts";
import type { Job } from "./scheduler.ts";

/** Chat tokens go when they have expired, the record of connections after 30 days. */
export const pruneChat = (chat: ChatService): Job => ({
  name: "prune-chat",
  everyMs: 600_000,
  runDue: () => chat.prune(),
});
