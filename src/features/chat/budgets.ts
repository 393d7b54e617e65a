import { budgetHolder } from "../../kernel/addresses.ts";
import type { RateLimiter } from "../../kernel/http/rate-limit.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { ChatCaller } from "./caller.ts";

export type Budgets = ReturnType<typeof chatBudgets>;

/** So much of an answer takes as long to make as a short one does. */
const BYTES_OF_A_REQUEST = 128 * 1024;

/** What one user may do in a window, over socket and REST together. Servers are exempt. */
export function chatBudgets({ config }: Runtime, limiter: RateLimiter) {
  const budget = (name: string, limit: number) => (caller: ChatCaller) => {
    if (caller.kind !== "apiKey") spend(name, keyOf(caller), limit);
  };
  function spend(name: string, key: string, limit: number): void {
    const { allowed, resetSeconds } = limiter.take(name, key, limit);
    if (!allowed) throw new ApiError("SVC_RATE_LIMITED", undefined, { retryAfterSeconds: resetSeconds });
  }
  return {
    send: budget("chat send", config.CHAT_SEND_RATE_LIMIT),
    /** REST alone: the socket counts its frames. Reading costs as much as writing does. */
    request: budget("chat request", config.CHAT_REQUEST_RATE_LIMIT),
    /** How long the answer was is known when it is made; what is asked for next is refused for it. */
    answered(caller: ChatCaller, bytes: number): void {
      const more = Math.floor(bytes / BYTES_OF_A_REQUEST);
      if (caller.kind === "apiKey" || more === 0) return;
      limiter.take("chat request", keyOf(caller), config.CHAT_REQUEST_RATE_LIMIT, more);
    },
    /** As many uploads as messages: each may be as large as an attachment can be. */
    attach: budget("chat attach", config.CHAT_SEND_RATE_LIMIT),
    react: budget("chat react", config.CHAT_REACTION_RATE_LIMIT),
    edit: budget("chat edit", config.CHAT_EDIT_RATE_LIMIT),
    read: budget("chat read", config.CHAT_READ_RATE_LIMIT),
    type: budget("chat type", config.CHAT_TYPING_RATE_LIMIT),
    /** As often as keys are struck. */
    search: budget("chat search", config.CHAT_TYPING_RATE_LIMIT),
    join: budget("chat join", config.CHAT_SUBSCRIBE_RATE_LIMIT),
    /** Reports and blocks: each is something that somebody has to look at. */
    report: budget("chat report", config.CHAT_REPORT_RATE_LIMIT),
    subscribePush: budget("push subscribe", config.CHAT_SUBSCRIBE_RATE_LIMIT),
    ring: budget("chat ring", config.CHAT_RING_RATE_LIMIT),
    /** Throws when this address has opened too many sockets. */
    connect: (ip: string) => spend("chat connect", budgetHolder(ip), config.CHAT_CONNECTION_RATE_LIMIT),
  };
}

const keyOf = ({ projectId, environment, userId }: Exclude<ChatCaller, { kind: "apiKey" }>) =>
  `${projectId} ${environment} ${userId}`;
