import type { Config } from "../../../kernel/config/index.ts";
import type { Mail } from "./mailer.ts";

/**
 * The mails of the service. Their links are built on the configured address alone: one taken from the request would
 * let a forged Host header send a victim's token elsewhere. The token is in the fragment, which no server ever sees.
 */
export function createMailTexts({ PUBLIC_URL, PORT }: Config) {
  const base = PUBLIC_URL?.replace(/\/$/, "") ?? `http://localhost:${PORT}`;
  const mail = (to: string, subject: string, link: string, lines: string[]): Mail => ({
    to,
    subject,
    link,
    text: [...lines.slice(0, 1), "", link, "", ...lines.slice(1), ""].join("\n"),
  });

  return {
    verifyEmail: (to: string, token: string) =>
      mail(to, "Confirm your e-mail address", `${base}/verify-email#token=${token}`, [
        "Open this link to confirm your address and sign in:",
        "It works once, within an hour. The account has the password of whoever created it: if that was not you, ignore this mail, or choose a password of your own as soon as you are signed in.",
      ]),

    resetPassword: (to: string, token: string) =>
      mail(to, "Choose a new password", `${base}/password-reset#token=${token}`, [
        "Open this link to choose a new password:",
        "It works once, within an hour. If you did not ask for it, ignore this mail: your password stays as it is.",
      ]),

    invitation: (to: string, token: string, project: string, inviter: string | null) =>
      mail(to, `Invitation to the project ${oneLine(project)}`, `${base}/invitation#token=${token}`, [
        `${inviter ?? "The operator of this server"} invites you to the project "${oneLine(project)}". Open this link to accept:`,
        "It works once, within seven days.",
      ]),
  };
}

export type MailTexts = ReturnType<typeof createMailTexts>;

/** A project's name is its owner's text; it must not add lines to somebody else's mail. */
function oneLine(text: string): string {
  return text.replace(/\s+/g, " ");
}
