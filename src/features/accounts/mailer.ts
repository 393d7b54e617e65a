import type { Transporter } from "nodemailer";
import type { Config } from "../../kernel/config/index.ts";
import type { Log } from "../../kernel/log.ts";
import type { FactorChange } from "./second-factor/second-factor.service.ts";

type Mail = { to: string; subject: string; text: string; link: string };

export type Mailer = ReturnType<typeof createMailer>;
export type MailTexts = ReturnType<typeof createMailTexts>;

export function createMailer({ SMTP_URL, MAIL_FROM }: Config, log: Log) {
  let opened: Promise<Transporter> | null = null;
  /** Most servers never send a mail, so the large module is loaded for the first mail. */
  const transport = (url: string): Promise<Transporter> => {
    opened ??= import("nodemailer").then(({ createTransport }) =>
      createTransport(url, { from: MAIL_FROM, disableFileAccess: true, disableUrlAccess: true }),
    );
    return opened;
  };
  const pending = new Set<Promise<void>>();

  async function send(compose: () => Promise<Mail | null>): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    const mail = await compose();
    if (!mail) return;
    const { to, subject, text, link } = mail;
    if (SMTP_URL === undefined) {
      log.warn({ to, subject, link }, "mail: not sent because SMTP_URL is unset, give this link to the recipient");
    } else {
      await (await transport(SMTP_URL)).sendMail({ to: { name: "", address: to }, subject, text });
    }
  }

  return {
    /** False without SMTP_URL: mails are written to the log, and e-mail addresses need no verification. */
    delivers: SMTP_URL !== undefined,
    /**
     * Composes and sends after the response, so that the timing of the response does not reveal whether an e-mail
     * address is known. Nothing is sent when `compose` returns null.
     */
    post(compose: () => Promise<Mail | null>): void {
      const sending = send(compose)
        .catch((err) => log.error({ err }, "mail: sending failed"))
        .finally(() => pending.delete(sending));
      pending.add(sending);
    },
    /** Connects to the mail server and signs in there; throws when that fails. */
    async check(): Promise<void> {
      if (SMTP_URL !== undefined) await (await transport(SMTP_URL)).verify();
    },
    /** Waits until every posted mail was sent or has failed. */
    async drain(): Promise<void> {
      while (pending.size > 0) await Promise.all(pending);
    },
  };
}

/**
 * The links are built from the configured URL only: with the request's Host header, an attacker could redirect a
 * victim's token. The token is in the fragment, which no server sees.
 */
export function createMailTexts({ PUBLIC_URL, PORT }: Config) {
  const base = PUBLIC_URL?.replace(/\/$/, "") ?? `http://localhost:${PORT}`;
  const mail = (to: string, subject: string, link: string, intro: string, notes: string): Mail => ({
    to,
    subject,
    link,
    text: [intro, "", link, "", notes, ""].join("\n"),
  });

  return {
    verifyEmail: (to: string, token: string) =>
      mail(
        to,
        "Confirm your e-mail address",
        `${base}/verify-email#token=${token}`,
        "Open this link to confirm your address and sign in:",
        "It works once, within an hour. The account has the password of the person who created it: if that was not you, ignore this mail, or choose a password of your own as soon as you are signed in.",
      ),

    resetPassword: (to: string, token: string) =>
      mail(
        to,
        "Choose a new password",
        `${base}/password-reset#token=${token}`,
        "Open this link to choose a new password:",
        "It works once, within an hour. If you did not ask for it, ignore this mail: your password stays as it is.",
      ),

    signedIn: (to: string, at: number, { ip, userAgent }: { ip: string; userAgent: string | null }) =>
      mail(
        to,
        "New sign-in to your account",
        `${base}/account`,
        `Your account was signed in to on ${new Date(at).toUTCString()}, from the address ${ip} with ${oneLine(userAgent ?? "an unknown program").slice(0, 200)}. Your sessions and your second factors are here:`,
        "If that was not you, sign that session out and change your password.",
      ),

    factorChanged: (to: string, at: number, change: FactorChange) =>
      mail(
        to,
        "The second factors of your account have changed",
        `${base}/account`,
        `${change} on ${new Date(at).toUTCString()}. Your second factors and your sessions are here:`,
        "If that was not you, change your password, sign out all other sessions and remove what you do not know.",
      ),

    invitation: (to: string, token: string, project: string, inviter: string | null) =>
      mail(
        to,
        `Invitation to the project ${oneLine(project)}`,
        `${base}/invitation#token=${token}`,
        `${inviter ?? "The operator of this server"} invites you to the project "${oneLine(project)}". Open this link to accept:`,
        "It works once, within seven days.",
      ),
  };
}

/** A project's owner chooses its name; the name must not add lines to a mail to another user. */
function oneLine(text: string): string {
  return text.replace(/\s+/g, " ");
}
