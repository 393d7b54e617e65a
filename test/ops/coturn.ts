import { join } from "node:path";
import { program } from "./machine.ts";

type TurnServer = { child: Bun.Subprocess; log(): string };

type Options = {
  address: string;
  port: number;
  secret: string;
  /** The folder of its files. */
  folder: string;
  /** A prefix of the command that runs it on another machine. */
  prefix?: string[];
  /** If set, coturn accepts TLS as well. */
  tls?: { port: number; cert: string; key: string };
};

/** Starts Debian's coturn as the guide describes, and resolves when it listens. */
export async function startCoturn({ address, port, secret, folder, prefix = [], tls }: Options): Promise<TurnServer> {
  const turnserver = await program("turnserver", "coturn");
  const child = Bun.spawn(
    [
      ...[...prefix, turnserver, "-n", "--use-auth-secret", `--static-auth-secret=${secret}`, "--realm=stoa.test"],
      ...[`--listening-ip=${address}`, `--relay-ip=${address}`, `--listening-port=${port}`],
      ...["--no-cli", "--no-dtls", "--allow-loopback-peers", "--log-file=stdout", "--verbose"],
      ...(tls ? [`--tls-listening-port=${tls.port}`, `--cert=${tls.cert}`, `--pkey=${tls.key}`] : ["--no-tls"]),
      ...[`--pidfile=${join(folder, "turn.pid")}`, `--userdb=${join(folder, "turndb")}`],
    ],
    { stdout: "pipe", stderr: "ignore" },
  );
  let text = "";
  const read = async () => {
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) text += decoder.decode(chunk, { stream: true });
  };
  void read();
  for (;;) {
    if (child.exitCode !== null) throw new Error(`coturn ended with ${child.exitCode}: ${text}`);
    const listens = await Bun.connect({ hostname: address, port, socket: { data: () => {} } }).catch(() => null);
    listens?.end();
    if (listens) return { child, log: () => text };
    await Bun.sleep(50);
  }
}
