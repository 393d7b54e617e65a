import { ApiError } from "../../protocol/errors.ts";
import type { Config } from "../config/index.ts";
import { rateLimitKey } from "../net/addresses.ts";
import type { Now } from "../time/clock.ts";
import type { Caller } from "./callers.ts";
import type { RequestInfo } from "./request-info.ts";

type Verdict = { allowed: boolean; limit: number; remaining: number; resetSeconds: number };

/** Fixed windows in memory, one per budget and key. An expensive request takes several `units`. */
export type RateLimiter = { take(budget: string, key: string, limit: number, units?: number): Verdict };

export function createRateLimiter(now: Now, windowSeconds: number): RateLimiter {
  const windows = new Map<string, { count: number; endsAt: number }>();
  const windowMs = windowSeconds * 1000;
  let sweptAt = now();
  // A window that ends more than its length from now began before the clock was set back.
  const isOver = (window: { endsAt: number }, at: number) => window.endsAt <= at || window.endsAt > at + windowMs;

  /** Runs at most once per window, because its cost grows with the number of keys. */
  function sweep(at: number): void {
    if (Math.abs(at - sweptAt) < windowMs) return;
    sweptAt = at;
    for (const [id, window] of windows) if (isOver(window, at)) windows.delete(id);
  }

  return {
    take(budget, key, limit, units = 1) {
      const at = now();
      sweep(at);
      const id = `${budget} ${key}`;
      let window = windows.get(id);
      if (!window || isOver(window, at)) {
        window = { count: 0, endsAt: at + windowMs };
        windows.set(id, window);
      }
      window.count += units;
      return {
        allowed: window.count <= limit,
        limit,
        remaining: Math.max(0, limit - window.count),
        resetSeconds: Math.max(1, Math.ceil((window.endsAt - at) / 1000)),
      };
    },
  };
}

type BudgetVariable = Extract<keyof Config, `RATE_LIMIT_${string}`>;
/** A budget is named by its variable without the prefix: `RTC_TOKENS` is `RATE_LIMIT_RTC_TOKENS`. */
type Budget = Exclude<BudgetVariable extends `RATE_LIMIT_${infer Name}` ? Name : never, "WINDOW_SECONDS">;

type LimitedContext = {
  info: RequestInfo;
  caller?: Caller;
  set: { headers: Record<string, string | number | string[] | undefined> };
};

/**
 * The rate limit is checked in a route's `transform`, after the credential and before validation; failed requests count
 * as well.
 */
export function createRateLimit(limiter: RateLimiter, config: Config) {
  return (budget: Budget) => {
    const limit = config[`RATE_LIMIT_${budget}`];
    return ({ info, caller, set }: LimitedContext): void => {
      const verdict = limiter.take(budget, identityOf(caller, info), limit);
      set.headers["ratelimit-limit"] = String(verdict.limit);
      set.headers["ratelimit-remaining"] = String(verdict.remaining);
      set.headers["ratelimit-reset"] = String(verdict.resetSeconds);
      if (!verdict.allowed) {
        throw new ApiError("SVC_RATE_LIMITED", undefined, { retryAfterSeconds: verdict.resetSeconds });
      }
    };
  };
}

export type RateLimit = ReturnType<typeof createRateLimit>;

/** The most specific identity of the request; never combined with the IP address. */
function identityOf(caller: Caller | undefined, info: RequestInfo): string {
  switch (caller?.kind) {
    case "apiKey":
      return `key:${caller.publicId}`;
    case "session":
      return `user:${caller.userId}`;
    case "rtcToken":
    case "chatToken":
      return `token:${caller.tokenId}`;
    default:
      return `ip:${rateLimitKey(info.ip)}`;
  }
}
