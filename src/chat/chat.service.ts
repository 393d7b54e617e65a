import type { Runtime } from "../runtime.ts";
import { type ChatDeps, chatRules } from "./rules.ts";
import { createLive } from "./socket/live.ts";

export type ChatService = ReturnType<typeof chatService>;

/** The rules of chat, and the sockets through which they are met live. */
export function chatService(runtime: Runtime, deps: ChatDeps) {
  const rules = chatRules(runtime, deps);
  const live = createLive(runtime, rules, deps.isArchived);
  return {
    ...rules,
    live,
    /** Forgets tokens that have expired, and connections of long ago; called by a job. */
    async prune(): Promise<void> {
      await runtime.write((unit) => rules.tokens.sweep(unit));
      while ((await live.connections.prune()) > 0);
    },
  };
}
