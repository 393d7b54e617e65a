/** The process of `stoa node`: media workers, the control plane's socket and heartbeats, without database or API. */
import { join } from "node:path";
import type { Config } from "../kernel/config/index.ts";
import type { Log } from "../kernel/log.ts";
import { hostInUrl } from "../kernel/net/addresses.ts";
import { guardDescriptors } from "../kernel/net/descriptors.ts";
import { systemNow } from "../kernel/time/clock.ts";
import { systemTimers, type Timers } from "../kernel/time/timers.ts";
import { VERSION } from "../kernel/version.ts";
import { planTls, type RunningTls, startTls } from "../network/tls/tls.ts";
import { EmbeddedMedia } from "./embedded-media.ts";
import { capacityOf, mediaRefused, spreadFrom } from "./local-media.ts";
import { mediaAddresses } from "./media-addresses.ts";
import { nodeRecordings } from "./node-recordings.ts";
import { controlPlaneAt, type NodeReporter, startNodeReporter } from "./node-reporter.ts";
import { createNodeServer } from "./node-server.ts";
import { serveNode } from "./node-server-http.ts";

type NodeProcessOptions = {
  config: Config;
  controlPlane: string;
  secret: string;
  /** The IP address of this machine at which the control plane can reach it, if it listens on all addresses. */
  reachableHost: string;
  log: Log;
  timers?: Timers;
};

export type NodeProcess = {
  internalUrl: string;
  ports: number[];
  announce: string[];
  reporter: NodeReporter;
  stop(reason: string, graceMs: number): Promise<void>;
};

/** How long a stopping node keeps running while its participants move to another node. */
const DRAIN_MS = 3_000;

export async function startNodeProcess(options: NodeProcessOptions): Promise<NodeProcess> {
  const { config, controlPlane, secret, reachableHost, log, timers = systemTimers } = options;
  const parts = { config, log, timers, now: systemNow };
  const plan = planTls(parts);
  const { announce, hostname } = await mediaAddresses(config, log);
  const { MEDIA_WORKERS: workers, MEDIA_UDP_PORT: port, MEDIA_FAN_OUT: fanOut } = config;
  const starting = EmbeddedMedia.start({
    workers,
    port,
    hostname,
    announce,
    tcp: true,
    fanOut,
    log,
    maxMemoryMb: config.MEDIA_WORKER_MAX_MEMORY_MB,
    warmUp: config.MEDIA_WARM_UP,
    spreadFrom: spreadFrom(config),
    ...(plan ? { relayed: plan.tables.udp.memory } : {}),
  });
  const media = await starting.catch((error: Error) => {
    throw mediaRefused(error, config, hostname);
  });
  const recordings = nodeRecordings(config.RECORDING_DIR ?? join(config.DATA_DIR, "recordings"));
  const node = createNodeServer(media, log, {
    media: { announce, ports: media.ports },
    recordings,
    links: () => media.openedLinks,
  });
  let reporter: NodeReporter | null = null;
  const problem = () =>
    descriptors.problem() ?? reporter?.problem() ?? (node.connected ? null : "the control plane is not connected");
  const descriptors = guardDescriptors({ log, metrics: null, httpPort: () => null });
  const plain = plan?.plain ?? { hostname: config.HOST, port: config.PORT };
  let front: RunningTls | null = null;
  const http = await Promise.try(async () => {
    const listener = serveNode(node, { ...plain, secret, problem, recordings });
    const upstreamPort = listener.server.port ?? 0;
    const endpoints = { announce, ports: media.ports };
    if (plan) front = await startTls({ ...parts, plan, upstreamPort, media: endpoints, turnSecret: null });
    return listener;
  }).catch(async (error) => {
    await media.close();
    throw error;
  });

  const internalUrl = config.SFU_INTERNAL_URL ?? ownUrl(config, front, reachableHost, http.server.port);
  reporter = startNodeReporter({
    node: media,
    registration: {
      name: config.SFU_NODE_NAME,
      region: config.SFU_REGION,
      publicHost: announce[0] ?? hostname,
      internalUrl,
      capacity: capacityOf(config),
      version: VERSION,
    },
    controlPlane: controlPlaneAt({ url: controlPlane, secret, fetch }),
    heartbeatTimeoutSeconds: config.SFU_HEARTBEAT_TIMEOUT_SECONDS,
    timers,
    log,
  });
  const { stop: stopReporting } = reporter;
  await reporter.reported;

  return {
    internalUrl,
    ports: media.ports,
    announce,
    reporter,
    async stop(reason, graceMs) {
      log.info({ reason }, "media node: stopping");
      stopReporting();
      node.announceClosing();
      const until = performance.now() + Math.min(graceMs, DRAIN_MS);
      while (node.connected && performance.now() < until && (await media.load()).participants > 0) await Bun.sleep(50);
      descriptors.stop();
      await http.stop(0);
      await front?.close();
      await media.close();
    },
  };
}

/** The node's own URL: by the domain, the TLS multiplexer or the plain HTTP server. */
function ownUrl(
  { DOMAIN, PUBLIC_URL }: Config,
  front: RunningTls | null,
  host: string,
  port: number | undefined,
): string {
  if (DOMAIN !== undefined && PUBLIC_URL !== undefined) return PUBLIC_URL;
  return front ? `https://${hostInUrl(host)}:${front.multiplexer.port}` : `http://${hostInUrl(host)}:${port}`;
}
