import { rmSync } from "node:fs";
import { Command } from "commander";
import { isLoopback } from "../../kernel/net/addresses.ts";
import { VERSION } from "../../kernel/version.ts";
import type { RunningServer } from "../../server.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";
import { runUntilSignal } from "../signals.ts";
import type { DevData } from "../start/dev-data.ts";
import { createTemporaryFolder } from "../start/temporary-folder.ts";
import { requireThreads } from "../thread-limit.ts";
import { surviveUncaughtErrors } from "../uncaught-errors.ts";
import { onStdinEnd } from "../until-stdin-ends.ts";

const SHORT_GRACE_MS = 1_000;

export function devCommand(argv: readonly string[]): Command {
  const dev = new Command("dev")
    .description("run a local server for development, with an account, a project and an API key")
    .option("--json", "print the credentials as one JSON object")
    .option("--throw-away", "use free ports and a temporary folder, removed on exit")
    .option("--until-stdin-ends", "exit when standard input closes, for programs that start a server")
    .action(async (options) => {
      const folder = options.throwAway === true ? createTemporaryFolder() : undefined;
      const remove = () => {
        if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
      };
      process.once("exit", remove);
      // Media is announced at this machine's other IP addresses too, because Firefox does not connect to 127.0.0.1
      // alone. Connecting needs credentials, which are only issued on loopback.
      const throwAway = folder === undefined ? {} : freePorts(folder, options);
      const { config } = configFrom({ ...options, ...throwAway, ...warmUp(options) });
      if (!isLoopback(config.HOST)) {
        throw new CommandFailure(
          `dev listens on loopback only, not on ${config.HOST}. Use \`stoa serve\` for others.`,
          true,
        );
      }
      requireThreads(config.MEDIA_WORKERS);
      const { boot } = await import("../boot.ts");
      const { ensureDevData } = await import("../start/dev-data.ts");
      await runUntilSignal(async (end) => {
        const server = await boot(config);
        surviveUncaughtErrors(server.runtime.log, end);
        try {
          const data = await ensureDevData(server);
          server.services.playground.openFor(data.projectId);
          const info = infoOf(server, config.DATA_DIR, data);
          print(options.json === true ? JSON.stringify(info) : welcome(info));
          if (options.untilStdinEnds === true) onStdinEnd(() => process.kill(process.pid, "SIGTERM"));
          // If the parent process is gone, there are no clients to drain.
          const stopsFast = options.throwAway === true || options.untilStdinEnds === true;
          return stopsFast ? { stop: (reason) => server.stop(reason, SHORT_GRACE_MS) } : server;
        } catch (error) {
          await server.stop("not for development", 0);
          throw error;
        }
      });
    });
  return addConfigOptions(dev, argv, "all");
}

/** Uses free ports unless the caller sets them. */
function freePorts(dataDir: string, options: Record<string, unknown>) {
  const port = options.port ?? process.env.PORT ?? "0";
  return { dataDir, port, mediaUdpPort: options.mediaUdpPort ?? process.env.MEDIA_UDP_PORT ?? "0" };
}

/** A server that a program starts, such as one of tests, mostly ends before a warm-up has paid off. */
function warmUp({ untilStdinEnds, mediaWarmUp }: Record<string, unknown>) {
  return untilStdinEnds === true ? { mediaWarmUp: mediaWarmUp ?? process.env.MEDIA_WARM_UP ?? "false" } : {};
}

function infoOf({ url, media, services }: RunningServer, dataDir: string, data: DevData) {
  const { email, password, projectId, apiKey } = data;
  const { publicId } = services.apiKeys.verify(apiKey);
  return {
    version: VERSION,
    url,
    dataDir,
    dashboardUrl: `${url}/`,
    docsUrl: `${url}/docs`,
    playgroundUrl: `${url}/playground`,
    media: { ports: media.ports, addresses: media.addresses },
    email,
    password,
    projectId,
    environment: "DEVELOPMENT",
    apiKey,
    livekit: {
      url: url.replace(/^http/, "ws"),
      apiKey: publicId,
      apiSecret: services.apiKeys.signingSecret(publicId),
    },
    // Room names are unique, so the name contains the time and the line can be pasted again.
    curl: `curl -X POST ${url}/v1/rooms -H 'authorization: Bearer ${apiKey}' -H 'content-type: application/json' -d '{"name":"hello-'$(date +%s)'"}'`,
  };
}

function welcome(info: ReturnType<typeof infoOf>): string {
  return `
  Stoa ${info.version} for development: its API answers this machine only. Data in ${info.dataDir}

  API         ${info.url}/v1
  Docs        ${info.docsUrl}
  Dashboard   ${info.dashboardUrl}
              ${info.email}, password ${info.password}
  Playground  ${info.playgroundUrl}   a room, in as many tabs as you like
  Media       udp and tcp ${info.media.ports.join(", ")} of ${info.media.addresses.join(", ")}
  API key     ${info.apiKey}
  LiveKit     ${info.livekit.url} for LiveKit's SDKs, API key ${info.livekit.apiKey}
              secret ${info.livekit.apiSecret}

  Make a room:

${info.curl}
`;
}
