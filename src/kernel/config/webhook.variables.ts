import { boolean, integer, optional, secret } from "./variable.ts";

export const webhookVariables = {
  WEBHOOK_MAX_ATTEMPTS: integer(6, { min: 1, max: 100 }, "Attempts before a delivery is FAILED."),
  WEBHOOK_BACKOFF_BASE_MS: integer(10_000, { min: 100, max: 3_600_000 }, "Wait after the first attempt; it doubles."),
  WEBHOOK_TIMEOUT_MS: integer(5000, { min: 100, max: 120_000 }, "Time that an endpoint has to respond."),
  WEBHOOK_DISABLE_AFTER_FAILURES: integer(
    50,
    { min: 1, max: 1_000_000 },
    "Consecutive failed attempts after which an endpoint is disabled.",
  ),
  WEBHOOK_DISABLE_AFTER_SECONDS: integer(
    3600,
    { min: 0, max: 604_800 },
    "Seconds that the failures must have lasted, too: an endpoint that only restarts is never disabled.",
  ),
  WEBHOOK_MAX_ENDPOINTS: integer(50, { min: 1, max: 10_000 }, "Webhook endpoints of an environment of a project."),
  WEBHOOK_RATE: integer(
    100,
    { min: 1, max: 100_000 },
    "Attempts per second of an environment of a project, after a burst of 2,000; further deliveries wait.",
  ),
  WEBHOOK_ALLOW_PRIVATE: boolean(false, "Allow webhooks to private addresses, also by http (on-premises installs)."),
};

const privateKey = {
  expected: "the base64url of 32 bytes",
  accepts: (value: string) => /^[A-Za-z0-9_-]{43}$/.test(value),
};
const subject = {
  expected: "a mailto: or https: address",
  accepts: (value: string) => /^(mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/.test(value),
};

export const pushVariables = {
  PUSH_VAPID_PRIVATE_KEY: secret(privateKey, "VAPID key of Web Push; derived from the master secret when unset."),
  PUSH_SUBJECT: optional(subject, "Contact for push services; PUBLIC_URL or MAIL_FROM when unset."),
  PUSH_TTL_SECONDS: integer(86_400, { min: 60, max: 2_419_200 }, "How long a push service keeps a message."),
  PUSH_MAX_SUBSCRIPTIONS: integer(
    10,
    { min: 1, max: 100 },
    "Browsers of one user that get notifications; the oldest subscriptions are replaced.",
  ),
};
