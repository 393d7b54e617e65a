import { boolean, integer } from "./variable.ts";

export const webhookVariables = {
  WEBHOOK_MAX_ATTEMPTS: integer(6, { min: 1, max: 100 }, "Attempts before a delivery is FAILED."),
  WEBHOOK_BACKOFF_BASE_MS: integer(10_000, { min: 100, max: 3_600_000 }, "Wait after the first attempt; it doubles."),
  WEBHOOK_TIMEOUT_MS: integer(5000, { min: 100, max: 120_000 }, "Time an endpoint has to answer."),
  WEBHOOK_DISABLE_AFTER_FAILURES: integer(
    50,
    { min: 1, max: 1_000_000 },
    "Consecutive failed attempts after which an endpoint is disabled.",
  ),
  WEBHOOK_DISABLE_AFTER_SECONDS: integer(
    3600,
    { min: 0, max: 604_800 },
    "How long those failures must have gone on as well: a receiver that restarts is never disabled.",
  ),
  WEBHOOK_MAX_ENDPOINTS: integer(50, { min: 1, max: 10_000 }, "Webhook endpoints of an environment of a project."),
  WEBHOOK_ALLOW_PRIVATE: boolean(false, "Allow webhooks to private addresses, also by http (on-premises installs)."),
};
