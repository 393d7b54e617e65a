import type { RateLimiter } from "../../kernel/http/rate-limit.ts";
import { rateLimitKey } from "../../kernel/net/addresses.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { ChatCaller } from "./access.ts";

/** A response of this size takes about as long to make as an ordinary request. */
const RESPONSE_BYTES_PER_REQUEST = 128 * 1024;

/** The rate limits of one user, for the socket and REST together. Backends are exempt. */
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
    /** Applies to REST only, because the socket counts its frames. */
    request: budget("chat request", config.CHAT_REQUEST_RATE_LIMIT),
    /** A long response is charged once its length is known; the charge counts against the user's next requests. */
    chargeResponse(caller: ChatCaller, bytes: number): void {
      const extra = Math.floor(bytes / RESPONSE_BYTES_PER_REQUEST);
      if (caller.kind === "apiKey" || extra === 0) return;
      limiter.take("chat request", keyOf(caller), config.CHAT_REQUEST_RATE_LIMIT, extra);
    },
    attach: budget("chat attach", config.CHAT_SEND_RATE_LIMIT),
    react: budget("chat react", config.CHAT_REACTION_RATE_LIMIT),
    edit: budget("chat edit", config.CHAT_EDIT_RATE_LIMIT),
    read: budget("chat read", config.CHAT_READ_RATE_LIMIT),
    type: budget("chat type", config.CHAT_TYPING_RATE_LIMIT),
    /** The limit is high because a client may search on every keystroke. */
    search: budget("chat search", config.CHAT_TYPING_RATE_LIMIT),
    join: budget("chat join", config.CHAT_SUBSCRIBE_RATE_LIMIT),
    /** Covers reports and blocks. */
    report: budget("chat report", config.CHAT_REPORT_RATE_LIMIT),
    subscribePush: budget("push subscribe", config.CHAT_SUBSCRIBE_RATE_LIMIT),
    ring: budget("chat ring", config.CHAT_RING_RATE_LIMIT),
    connect: (ip: string) => spend("chat connect", rateLimitKey(ip), config.CHAT_CONNECTION_RATE_LIMIT),
  };
}

const keyOf = ({ projectId, environment, userId }: Exclude<ChatCaller, { kind: "apiKey" }>) =>
  `${projectId} ${environment} ${userId}`;
