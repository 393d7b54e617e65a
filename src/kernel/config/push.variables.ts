import { integer, optional, secret } from "./variable.ts";

const privateKey = {
  expected: "the base64url of 32 bytes",
  accepts: (value: string) => /^[A-Za-z0-9_-]{43}$/.test(value),
};
const subject = {
  expected: "a mailto: or https: address",
  accepts: (value: string) => /^(mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/.test(value),
};

export const pushVariables = {
  PUSH_VAPID_PRIVATE_KEY: secret(privateKey, "VAPID key of Web Push; made from the master secret when unset."),
  PUSH_SUBJECT: optional(subject, "Whom push services may write to; PUBLIC_URL or MAIL_FROM when unset."),
  PUSH_TTL_SECONDS: integer(86_400, { min: 60, max: 2_419_200 }, "How long a push service keeps a message."),
  PUSH_MAX_SUBSCRIPTIONS: integer(
    10,
    { min: 1, max: 100 },
    "Browsers of one user that are woken; the oldest give way.",
  ),
};
