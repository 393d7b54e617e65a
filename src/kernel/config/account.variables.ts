import { email, lengthBetween, mailbox, smtpUrl } from "./checks.ts";
import { boolean, choice, integer, optional, secret, text } from "./variable.ts";

export const accountVariables = {
  REGISTRATION: choice(
    "first-user",
    ["first-user", "open", "closed"],
    "Who may register: only the first account (others by invitation), everyone, or no one.",
  ),
  SECOND_FACTOR: choice(
    "optional",
    ["optional", "required"],
    "Whether dashboard accounts must have a passkey or one-time codes. Required: an account without one can only set it up.",
  ),
  ADMIN_EMAIL: optional(email, "Operator account made at the first start on an empty database. Needs ADMIN_PASSWORD."),
  ADMIN_PASSWORD: secret(lengthBetween(10, 200), "Password of the account of ADMIN_EMAIL."),
  SMTP_URL: secret(smtpUrl, "Mail server. Unset: addresses need no verification, and links are written to the log."),
  MAIL_FROM: text("Stoa <stoa@localhost>", mailbox, "Sender of mails."),
  USAGE_INCLUDED_MINUTES: integer(
    20_000,
    { min: 1, max: 1_000_000_000 },
    "Participant-minutes an account may use in a calendar month.",
  ),
  USAGE_ENFORCE_LIMIT: boolean(false, "Refuse new tokens once USAGE_INCLUDED_MINUTES are used."),
};
