import { existsSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { Command, Option } from "commander";
import type { RunningMember } from "../../cluster/member.ts";
import type { Config } from "../../kernel/config/index.ts";
import { HTTPS_PORT, listenAddresses } from "../../kernel/config/listen-addresses.ts";
import type { Log } from "../../kernel/log.ts";
import { hostInUrl, isLoopback } from "../../kernel/net/addresses.ts";
import { ownCommandLine, programPath } from "../../kernel/own-command.ts";
import { VERSION } from "../../kernel/version.ts";
import type { EmbeddedMedia } from "../../nodes/embedded-media.ts";
import type { RunningServer } from "../../server.ts";
import type { Upgrades } from "../../upgrade/upgrade.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { print } from "../print.ts";
import { runUntilSignal } from "../signals.ts";
import { devDataPath } from "../start/dev-data.ts";
import { requireThreads } from "../thread-limit.ts";
import { surviveUncaughtErrors } from "../uncaught-errors.ts";

/** The flag with which the newer process of an upgrade is started. */
const TAKE_OVER = "--take-over";

export function serveCommand(argv: readonly string[]): Command {
  const serve = new Command("serve")
    .description("run the server")
    .option("--rotate-secret", "accept another STOA_SECRET: keys and sessions made with the old one stop working")
    .addOption(new Option(TAKE_OVER).hideHelp())
    .action(async (options) => {
      const { config } = configFrom(options);
      requireThreads(config.MEDIA_WORKERS);
      let upgrades: Upgrades | null = null;
      // Without a listener the signal would end the process.
      process.on("SIGUSR2", () => upgrades?.begin());
      const log = await openLog(config);
      const early = config.COMMIT_LOG_URL === undefined ? { log, threads: await mediaThreads(config, log) } : null;
      const { boot, bootProxy, bootMember } = await import("../boot.ts");
      await runUntilSignal(async (end) => {
        if (config.ROLE === "edge") {
          const edge = await bootProxy(config);
          surviveUncaughtErrors(log, end);
          print([`Stoa ${VERSION}   an edge, without data`, `  Listening  ${edge.url}`].join("\n"));
          return edge;
        }
        if (config.COMMIT_LOG_URL !== undefined) {
          const member = await bootMember(config, { rotateSecret: options.rotateSecret });
          surviveUncaughtErrors(log, end);
          print(memberGreeting(member, config).join("\n"));
          return member;
        }
        const bootOptions = { rotateSecret: options.rotateSecret, log: early?.log, upgrades: true };
        const { acceptUpgrades } = await import("../../upgrade/upgrade.ts");
        let server: RunningServer;
        if (options.takeOver && early) {
          const { takeOver } = await import("../../upgrade/newer-process.ts");
          const start: Parameters<typeof takeOver>[0]["start"] = (succeeds) =>
            boot(config, { ...bootOptions, succeeds });
          server = await takeOver({ config, ...early, start });
        } else {
          server = await boot(config, { ...bootOptions, takeMediaThreads: () => early?.threads ?? null });
          print(greeting(server, config).join("\n"));
        }
        surviveUncaughtErrors(log, end);
        upgrades = acceptUpgrades({ config, server, command: newerCommand, end });
        return server;
      });
    });
  return addConfigOptions(serve, argv, "all");
}

/** The command line of this process, for another program or for this program itself. */
function newerCommand(binary: string | null): string[] {
  // Bun alone is not a server: the program has to be a compiled one.
  const isBun = !Bun.isStandaloneExecutable && binary === programPath();
  const program = binary === null || isBun ? ownCommandLine() : [binary];
  return [...program, ...process.argv.slice(2).filter((argument) => argument !== TAKE_OVER), TAKE_OVER];
}

/**
 * Media workers load their code while this thread loads that of the server. A failed start ends the process together
 * with the workers.
 */
async function mediaThreads({ MEDIA_WORKERS }: Config, log: Log): Promise<EmbeddedMedia> {
  const { EmbeddedMedia } = await import("../../nodes/embedded-media.ts");
  return EmbeddedMedia.spawn(MEDIA_WORKERS, log);
}

async function openLog({ LOG_LEVEL: level, LOG_FORMAT: format }: Config): Promise<Log> {
  const { createLog } = await import("../../kernel/log.ts");
  return createLog({ level, format });
}

function greeting({ url, services, media }: RunningServer, config: Config): string[] {
  const urls = reachableUrls(url, config.HOST);
  const home = config.PUBLIC_URL ?? urls[0] ?? url;
  const lines = [
    `Stoa ${VERSION}   data in ${config.DATA_DIR}`,
    ...urls.map((reachable) => `  Listening  ${reachable}`),
  ];
  for (const address of media.addresses) {
    lines.push(`  Media      ${media.ports.map((port) => `${hostInUrl(address)}:${port}`).join(", ")} (udp and tcp)`);
  }
  // In front of a server on loopback there is a reverse proxy or the TLS multiplexer, whose port has to be open.
  const front = new URL(config.PUBLIC_URL !== undefined && isLoopback(config.HOST) ? config.PUBLIC_URL : url);
  const edge =
    config.DOMAIN === undefined && config.EDGE_PORT !== HTTPS_PORT ? listenAddresses(config)?.tls : undefined;
  if (edge) lines.push(`  Edge       https, WebSockets and TURN at port ${edge.port} of every address`);
  const port = edge?.port ?? (front.port || (front.protocol === "https:" ? "443" : "80"));
  const plain = config.DOMAIN !== undefined && config.TLS_CERT === undefined ? config.HTTP_PORT : 0;
  lines.push(
    `  Firewall   let in tcp ${port}${plain === 0 ? "" : ` and ${plain}`}, udp and tcp ${media.ports.join(", ")}`,
  );
  if (config.PUBLIC_URL !== undefined) lines.push(`  Public     ${config.PUBLIC_URL}`);
  if (services.users.isEmpty()) lines.push(firstStep(home, config));
  if (existsSync(devDataPath(config.DATA_DIR))) {
    lines.push(
      `  Careful: \`stoa dev\` made this data, and ${devDataPath(config.DATA_DIR)} holds a password and a key to it.`,
    );
  }
  return lines;
}

function memberGreeting({ url, state }: RunningMember, config: Config): string[] {
  const { role, leader, position } = state();
  return [
    `Stoa ${VERSION}   data in ${config.DATA_DIR}`,
    `  Listening  ${url}`,
    role === "leader"
      ? `  Leads      the servers of the commit log, from position ${position}`
      : `  Stands by  at position ${position}${leader === null ? "" : `; ${leader} leads`}`,
  ];
}

function firstStep(home: string, { REGISTRATION }: Config): string {
  return REGISTRATION === "closed"
    ? "  Next: make the operator account with `stoa admin create`."
    : `  Next: open ${home}/ to create the operator account.`;
}

/** A browser cannot open 0.0.0.0, so a server on all interfaces is listed with the address of each. */
function reachableUrls(url: string, bound: string): string[] {
  if (bound !== "0.0.0.0" && bound !== "::") return [url];
  const { protocol, port } = new URL(url);
  const addresses = Object.values(networkInterfaces())
    .flatMap((entries) => entries ?? [])
    // Link-local addresses need a zone, which browsers do not accept.
    .filter(({ family, address }) => (bound === "::" || family === "IPv4") && !address.startsWith("fe80:"))
    .toSorted((a, b) => Number(b.internal) - Number(a.internal))
    .map(({ address, family }) => (family === "IPv6" ? `[${address}]` : address));
  return addresses.map((address) => `${protocol}//${address}:${port}`);
}
