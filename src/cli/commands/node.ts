import { createSocket } from "node:dgram";
import { hostname } from "node:os";
import { Command } from "commander";
import type { Config } from "../../kernel/config/index.ts";
import { CertificateRefused } from "../../kernel/http/serving/certificate.ts";
import { createLog } from "../../kernel/log.ts";
import { isLoopback } from "../../kernel/net/addresses.ts";
import { VERSION } from "../../kernel/version.ts";
import type { NodeProcess } from "../../nodes/node-process.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { listenFailure } from "../listen-failure.ts";
import { print } from "../print.ts";
import { runUntilSignal } from "../signals.ts";
import { requireThreads } from "../thread-limit.ts";
import { surviveUncaughtErrors } from "../uncaught-errors.ts";

const VISIBLE_SETTINGS = [
  "CONTROL_PLANE",
  "SFU_REGISTRATION_SECRET",
  "SFU_NODE_NAME",
  "SFU_REGION",
  "SFU_CAPACITY",
  "SFU_INTERNAL_URL",
  "SFU_HEARTBEAT_TIMEOUT_SECONDS",
  "HOST",
  "PORT",
  "MEDIA_UDP_PORT",
  "MEDIA_WORKERS",
  "MEDIA_WORKER_MAX_MEMORY_MB",
  "MEDIA_FAN_OUT",
  "MEDIA_SPREAD",
  "MEDIA_WARM_UP",
  "PUBLIC_IP",
  "TLS_CERT",
  "TLS_KEY",
  "DOMAIN",
  "EDGE_PORT",
  "HTTP_PORT",
  "ACME_EMAIL",
  "ACME_DIRECTORY",
  "ACME_CA",
  "ACME_CHALLENGE",
  "ACME_EAB_KEY_ID",
  "ACME_EAB_HMAC",
  "DATA_DIR",
  "RECORDING_DIR",
  "LOG_LEVEL",
  "LOG_FORMAT",
] as const;

export function nodeCommand(argv: readonly string[]): Command {
  const node = new Command("node")
    .description("run a media node for a server on another machine")
    .action(async (options) => {
      const { config: given, sources } = configFrom(options);
      requireThreads(given.MEDIA_WORKERS);
      // Every server calls its own node "local", so another node needs another name.
      const name = sources.SFU_NODE_NAME === "default" ? hostname().replaceAll(/[^A-Za-z0-9._-]/g, "-") : undefined;
      const config = name ? { ...given, SFU_NODE_NAME: name } : given;
      const { controlPlane, secret } = required(config);
      const reachableHost = await reachableHostOf(config, controlPlane);
      const log = createLog({ level: config.LOG_LEVEL, format: config.LOG_FORMAT });
      const { startNodeProcess } = await import("../../nodes/node-process.ts");
      await runUntilSignal(async (end) => {
        const running = await startNodeProcess({ config, controlPlane, secret, reachableHost, log }).catch((error) => {
          throw explain(error, config);
        });
        if (running.reporter.refused()) {
          await running.stop("refused", 0);
          throw new CommandFailure(`${controlPlane}: ${running.reporter.problem()}${remedyOf(running, config)}`);
        }
        surviveUncaughtErrors(log, end);
        print(greeting(running, config, controlPlane).join("\n"));
        return running;
      });
    });
  return addConfigOptions(node, argv, VISIBLE_SETTINGS);
}

function required({ CONTROL_PLANE, SFU_REGISTRATION_SECRET }: Config): { controlPlane: string; secret: string } {
  if (CONTROL_PLANE === undefined) {
    throw new CommandFailure("say which server this node works for: --control-plane http://10.0.0.1:7000", true);
  }
  if (SFU_REGISTRATION_SECRET === undefined) {
    throw new CommandFailure(
      "SFU_REGISTRATION_SECRET is not set. Make one for this node with `stoa node-keys create NAME` on the server, or use the server's own: its variable, or the file sfu-secret in its DATA_DIR.",
      true,
    );
  }
  return { controlPlane: CONTROL_PLANE.replace(/\/$/, ""), secret: SFU_REGISTRATION_SECRET };
}

/** The address at which the control plane reaches this node, unless SFU_INTERNAL_URL is set. */
async function reachableHostOf({ HOST, DOMAIN, SFU_INTERNAL_URL }: Config, controlPlane: string): Promise<string> {
  // With DOMAIN, the node has its own TLS port and is reached by that name.
  if (DOMAIN !== undefined) return HOST;
  const { hostname: host } = new URL(controlPlane);
  if (HOST === "0.0.0.0" || HOST === "::") return addressTowards(host.replaceAll(/[[\]]/g, ""));
  if (SFU_INTERNAL_URL === undefined && isLoopback(HOST) && !isLoopback(host)) {
    throw new CommandFailure(
      `the control plane at ${host} cannot reach ${HOST}. Listen on an address it can: --host 0.0.0.0`,
      true,
    );
  }
  return HOST;
}

/** The local address of connections to a host. Connecting a UDP socket finds it without sending a packet. */
function addressTowards(host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
    socket.once("error", (error) => {
      socket.close();
      reject(new CommandFailure(`${host} cannot be found: ${error.message}. Or set SFU_INTERNAL_URL.`));
    });
    socket.connect(9, host, () => {
      const { address } = socket.address();
      socket.close();
      resolve(address);
    });
  });
}

function remedyOf({ reporter }: NodeProcess, { SFU_NODE_NAME }: Config): string {
  return reporter.problem()?.includes("secret")
    ? ". SFU_REGISTRATION_SECRET must be the server's: its variable, or the file sfu-secret in its DATA_DIR."
    : ` (${SFU_NODE_NAME}). Choose another with --sfu-node-name.`;
}

function greeting({ internalUrl, ports, announce, reporter }: NodeProcess, config: Config, controlPlane: string) {
  const { SFU_NODE_NAME: name, SFU_REGION: region, SFU_CAPACITY: capacity } = config;
  const problem = reporter.problem();
  return [
    `Stoa ${VERSION} media node ${name}, region ${region}${capacity === 0 ? "" : `, at most ${capacity} rooms`}`,
    `  Media          udp and tcp ${ports.join(", ")}, for clients at ${announce.join(", ")}`,
    `  Control plane  ${controlPlane}, which reaches this node at ${internalUrl}`,
    problem === null ? "  Registered" : `  Not registered yet (${problem}); it keeps trying.`,
  ];
}

function explain(error: unknown, config: Config): unknown {
  if (error instanceof Error && error.name === "MediaRefused") return new CommandFailure(error.message);
  if (error instanceof CertificateRefused) return new CommandFailure(error.message, true);
  return listenFailure(error, config) ?? error;
}
