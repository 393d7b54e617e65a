import { requireReadable } from "../kernel/http/body.ts";
import { answers } from "../kernel/http/guards.ts";
import type { Budget, RateLimit } from "../kernel/http/rate-limit.ts";

/** For routes whose caller is known by the address alone: the limiter stands before everything else. */
export const limitedByAddress = (rateLimit: RateLimit) => (budget: Budget) => [
  rateLimit(budget),
  answers(["SVC_VALIDATION_FAILED", "SVC_PAYLOAD_TOO_LARGE", "SVC_UNSUPPORTED_MEDIA_TYPE"], readable),
];

const readable = ({ body }: { body: unknown }) => requireReadable(body);
