import { rmSync } from "node:fs";
import { Command } from "commander";
import { isLoopback } from "../../kernel/net/addresses.ts";
import { VERSION } from "../../kernel/version.ts";
import type { RunningServer } from "../../server.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { runUntilSignal } from "../signals.ts";
import type { DevData } from "../start/dev-data.ts";
import { createTemporaryFolder } from "../start/temporary-folder.ts";
import { onStdinEnd } from "../until-stdin-ends.ts";

const BRIEF_MS = 1_000;

export function devCommand(argv: readonly string[]): Command {
  const dev = new Command("dev")
    .description("run the server on this machine only, with an account, a project and a key to try it with")
    .option("--json", "print what was made as one JSON object")
    .option("--throw-away", "free ports and a folder for this run alone; nothing is left of it afterwards")
    .option("--until-stdin-ends", "stop when standard input does, for programs that start a server of their own")
    .action(async (options) => {
      const folder = options.throwAway === true ? createTemporaryFolder() : undefined;
      const remove = () => {
        if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
      };
      process.once("exit", remove);
      // Media is announced at this machine's other addresses too: Firefox makes no call to 127.0.0.1 alone. A connection
      // takes credentials that only loopback hands out.
      const throwAway = folder === undefined ? {} : freePorts(folder, options);
      const { config } = configFrom({ ...options, ...throwAway });
      if (!isLoopback(config.HOST)) {
        throw new CommandFailure(
          `dev listens on loopback only, not on ${config.HOST}. Use \`stoa serve\` for others.`,
          true,
        );
      }
      const { boot } = await import("../boot.ts");
      const { ensureDevData } = await import("../start/dev-data.ts");
      await runUntilSignal(async () => {
        const server = await boot(config);
        try {
          const data = await ensureDevData(server);
          server.services.playground.openFor(data.projectId);
          const facts = factsOf(server, config.DATA_DIR, data);
          console.log(options.json === true ? JSON.stringify(facts) : welcome(facts));
          if (options.untilStdinEnds === true) onStdinEnd(() => process.kill(process.pid, "SIGTERM"));
          // Nobody is left to say goodbye to when the one who started it is gone.
          const brief = options.throwAway === true || options.untilStdinEnds === true;
          return brief ? { stop: (reason) => server.stop(reason, BRIEF_MS) } : server;
        } catch (error) {
          await server.stop("not for development", 0);
          throw error;
        }
      });
    });
  return addConfigOptions(dev, argv, "all");
}

/** Free ones, unless the caller wants certain ones. */
function freePorts(dataDir: string, options: Record<string, unknown>) {
  const port = options.port ?? process.env.PORT ?? "0";
  return { dataDir, port, mediaUdpPort: options.mediaUdpPort ?? process.env.MEDIA_UDP_PORT ?? "0" };
}

type Facts = ReturnType<typeof factsOf>;

function factsOf({ url, media, services }: RunningServer, dataDir: string, data: DevData) {
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
    // Room names are unique: with the time in it, the line works every time it is pasted.
    curl: `curl -X POST ${url}/v1/rooms -H 'authorization: Bearer ${apiKey}' -H 'content-type: application/json' -d '{"name":"hello-'$(date +%s)'"}'`,
  };
}

function welcome(facts: Facts): string {
  return `
  Stoa ${facts.version} for development: its API answers this machine only. Data in ${facts.dataDir}

  API         ${facts.url}/v1
  Docs        ${facts.docsUrl}
  Dashboard   ${facts.dashboardUrl}
              ${facts.email}, password ${facts.password}
  Playground  ${facts.playgroundUrl}   a room, in as many tabs as you like
  Media       udp and tcp ${facts.media.ports.join(", ")} of ${facts.media.addresses.join(", ")}
  API key     ${facts.apiKey}
  LiveKit     ${facts.livekit.url} for LiveKit's SDKs, API key ${facts.livekit.apiKey}
              secret ${facts.livekit.apiSecret}

  Make a room:

${facts.curl}
`;
}
