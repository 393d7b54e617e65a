import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

export type Mail = { from: string; to: string; text: string; subject: string; link: string; token: string };

export type MailServer = { url: string; mails: Mail[]; refuse(yes: boolean): void; close(): Promise<void> };

/** A real SMTP server on loopback that requires a login and keeps the mails. */
export async function mailServer(): Promise<MailServer> {
  const mails: Mail[] = [];
  let refusing = false;
  const server = new SMTPServer({
    disabledCommands: ["STARTTLS"],
    allowInsecureAuth: true,
    onAuth: ({ username, password }, _, done) =>
      username === "stoa" && password === "p@ss" ? done(null, { user: username }) : done(new Error("wrong login")),
    onData(stream, session, done) {
      let source = "";
      stream.on("data", (chunk: Buffer) => {
        source += chunk.toString();
      });
      stream.on("end", () => {
        if (refusing) return done(new Error("mailbox full"));
        mails.push(read(source, session.envelope.rcptTo.map(({ address }) => address).join()));
        done();
      });
    },
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.server.address() as AddressInfo;
  return {
    url: `smtp://stoa:p%40ss@127.0.0.1:${port}`,
    mails,
    refuse(yes) {
      refusing = yes;
    },
    close: () => new Promise((closed) => server.close(closed)),
  };
}

function read(source: string, to: string): Mail {
  const [head = "", ...rest] = source.split("\r\n\r\n");
  // Quoted-printable: soft line breaks, and `=` itself.
  const text = rest.join("\n\n").replace(/=\r\n/g, "").replace(/=3D/g, "=");
  const header = (name: string) => new RegExp(`^${name}: (.*)$`, "mi").exec(head)?.[1] ?? "";
  const link = /https?:\/\/\S+/.exec(text)?.[0] ?? "";
  return {
    from: header("From"),
    subject: header("Subject"),
    to,
    text,
    link,
    token: /#token=([\w-]+)/.exec(link)?.[1] ?? "",
  };
}
