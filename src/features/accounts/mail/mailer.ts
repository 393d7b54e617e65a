import type { Transporter } from "nodemailer";
import type { Config } from "../../../kernel/config/index.ts";
import type { Log } from "../../../kernel/log.ts";

export type Mail = { to: string; subject: string; text: string; link: string };

export type Mailer = {
  /** False without SMTP_URL: mails end in the log, and nobody must prove an address. */
  readonly delivers: boolean;
  /**
   * Composes and sends after the answer is out, so that its time tells nothing of who gets mail. A composer that
   * returns null sends nothing.
   */
  post(compose: () => Promise<Mail | null>): void;
  /** Reaches the mail server and signs in there, or throws. */
  check(): Promise<void>;
  /** Waits until everything posted so far is sent or given up. */
  drain(): Promise<void>;
};

export function createMailer({ SMTP_URL, MAIL_FROM }: Config, log: Log): Mailer {
  let opened: Promise<Transporter> | null = null;
  /** Much code, which most servers never need: it is loaded for the first mail. */
  const transport = (url: string): Promise<Transporter> => {
    opened ??= import("nodemailer").then(({ createTransport }) =>
      createTransport(url, { from: MAIL_FROM, disableFileAccess: true, disableUrlAccess: true }),
    );
    return opened;
  };
  const pending = new Set<Promise<void>>();

  async function send(compose: () => Promise<Mail | null>): Promise<void> {
    await new Promise((answered) => setImmediate(answered));
    const mail = await compose();
    if (!mail) return;
    const { to, subject, text, link } = mail;
    if (SMTP_URL !== undefined)
      await (await transport(SMTP_URL)).sendMail({ to: { name: "", address: to }, subject, text });
    else log.warn({ to, subject, link }, "MAIL NOT SENT, as SMTP_URL is unset: hand this link to its recipient");
  }

  return {
    delivers: SMTP_URL !== undefined,
    post(compose) {
      const sending = send(compose)
        .catch((err) => log.error({ err }, "mail could not be sent"))
        .finally(() => pending.delete(sending));
      pending.add(sending);
    },
    async check() {
      if (SMTP_URL !== undefined) await (await transport(SMTP_URL)).verify();
    },
    async drain() {
      while (pending.size > 0) await Promise.all(pending);
    },
  };
}
