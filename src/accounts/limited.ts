import { requireReadable } from "../kernel/http/body.ts";
import type { Budget, RateLimit } from "../kernel/http/rate-limit.ts";

/** For routes whose caller is known by the address alone: the limiter stands before everything else. */
export const limitedByAddress = (rateLimit: RateLimit) => (budget: Budget) => [
  rateLimit(budget),
  ({ body }: { body: unknown }) => requireReadable(body),
];
