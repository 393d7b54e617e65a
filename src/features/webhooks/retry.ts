import { DAY_MS } from "../../kernel/time/clock.ts";
import type { DeliveryStatus, WebhookDisabledReason } from "../../protocol/enums.ts";
import type { Outcome } from "./attempt.ts";

type RetryLimits = {
  WEBHOOK_MAX_ATTEMPTS: number;
  WEBHOOK_BACKOFF_BASE_MS: number;
  WEBHOOK_DISABLE_AFTER_FAILURES: number;
  WEBHOOK_DISABLE_AFTER_SECONDS: number;
};

type Verdict = {
  status: DeliveryStatus;
  nextAttemptAt: number | null;
  /** Consecutive failures of the endpoint, including this attempt. */
  consecutiveFailures: number;
  disable: WebhookDisabledReason | null;
};

const JITTER = 0.1;
const MAX_WAIT_MS = DAY_MS;

/** The consequences of an attempt for its delivery and its endpoint. `random` is from 0 to 1. */
export function judge(
  outcome: Exclude<Outcome, { kind: "abandoned" }>,
  before: { attemptsInRound: number; consecutiveFailures: number; failingSince: number | null },
  limits: RetryLimits,
  now: number,
  random: number,
): Verdict {
  if (outcome.error === null) {
    return { status: "DELIVERED", nextAttemptAt: null, consecutiveFailures: 0, disable: null };
  }
  const attempts = before.attemptsInRound + 1;
  const consecutiveFailures = before.consecutiveFailures + 1;
  const gone = outcome.kind === "answered" && outcome.statusCode === 410;
  // A receiver that restarts under load fails many times within seconds, so the count alone must not disable it.
  const failedForMs = now - (before.failingSince ?? now);
  const isLost =
    consecutiveFailures >= limits.WEBHOOK_DISABLE_AFTER_FAILURES &&
    failedForMs >= limits.WEBHOOK_DISABLE_AFTER_SECONDS * 1000;
  const disable = gone ? "gone" : isLost ? "consecutive_failures" : null;
  if (gone || attempts >= limits.WEBHOOK_MAX_ATTEMPTS) {
    return { status: "FAILED", nextAttemptAt: null, consecutiveFailures, disable };
  }
  const retryAfterMs = outcome.kind === "answered" ? outcome.retryAfterMs : null;
  const waitMs = retryAfterMs ?? backoffMs(attempts, limits.WEBHOOK_BACKOFF_BASE_MS, random);
  return { status: "PENDING", nextAttemptAt: now + waitMs, consecutiveFailures, disable };
}

/** Doubles with every failed attempt. The jitter spreads deliveries that failed together. */
export function backoffMs(failedAttempts: number, baseMs: number, random: number): number {
  const waitMs = Math.min(baseMs * 2 ** (failedAttempts - 1), MAX_WAIT_MS);
  return Math.round(waitMs * (1 + JITTER * (2 * random - 1)));
}
