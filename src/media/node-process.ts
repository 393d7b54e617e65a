/** A media node on its own: workers, its control plane's socket, and its agent. No database, no API. */
import type { Config } from "../kernel/config/index.ts";
import { certificateFiles, readCertificate } from "../kernel/http/certificate.ts";
import type { Log } from "../kernel/log.ts";
import { systemTimers } from "../kernel/timers.ts";
import { VERSION } from "../kernel/version.ts";
import { mediaAddresses } from "./addresses.ts";
import { type Agent, startAgent } from "./agent.ts";
import { EmbeddedMedia } from "./embedded.ts";
import { capacityOf, mediaRefused } from "./local.ts";
import { createNodeServer } from "./node-server.ts";
import { serveNode } from "./node-server-http.ts";

export type NodeProcessOptions = {
  config: Config;
  controlPlane: string;
  secret: string;
  /** The address of this machine that the control plane can reach, should it listen on all of them. */
  reachableHost: string;
  log: Log;
};

export type NodeProcess = {
  internalUrl: string;
  ports: number[];
  announce: string[];
  agent: Agent;
  stop(reason: string, graceMs: number): Promise<void>;
};

/** How long a stopping node goes on for those who are on their way to another. */
const FAREWELL_MS = 3_000;

export async function startNodeProcess(options: NodeProcessOptions): Promise<NodeProcess> {
  const { config, controlPlane, secret, reachableHost, log } = options;
  const files = certificateFiles(config);
  const certificate = files && readCertificate(files);
  const { announce, hostname } = await mediaAddresses(config, log);
  const { MEDIA_WORKERS: workers, MEDIA_UDP_PORT: port } = config;
  const starting = EmbeddedMedia.start({ workers, port, hostname, announce, tcp: true, log });
  const media = await starting.catch((error: Error) => {
    throw mediaRefused(error, config, hostname);
  });
  const node = createNodeServer(media, log);
  let agent: Agent | null = null;
  const problem = () => agent?.problem() ?? (node.connected ? null : "the control plane is not connected");
  const http = { hostname: config.HOST, port: config.PORT, certificate, secret, problem };
  const server = await Promise.try(() => serveNode(node, http)).catch(async (error) => {
    await media.close();
    throw error;
  });

  const scheme = certificate ? "https" : "http";
  const internalUrl = config.SFU_INTERNAL_URL ?? `${scheme}://${bracketed(reachableHost)}:${server.port}`;
  agent = startAgent({
    node: media,
    registration: {
      name: config.SFU_NODE_NAME,
      region: config.SFU_REGION,
      publicHost: announce[0] ?? hostname,
      internalUrl,
      capacity: capacityOf(config),
      version: VERSION,
    },
    controlPlane,
    secret,
    heartbeatTimeoutSeconds: config.SFU_HEARTBEAT_TIMEOUT_SECONDS,
    fetch,
    timers: systemTimers,
    log,
  });
  const { stop: stopAgent } = agent;
  await agent.reported;

  return {
    internalUrl,
    ports: media.ports,
    announce,
    agent,
    async stop(reason, graceMs) {
      log.info({ reason }, "stopping");
      stopAgent();
      node.announceClosing();
      const until = performance.now() + Math.min(graceMs, FAREWELL_MS);
      while (node.connected && performance.now() < until && (await media.load()).participants > 0) await Bun.sleep(50);
      await server.stop(true);
      await media.close();
    },
  };
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
