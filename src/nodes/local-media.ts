import { randomBytes } from "node:crypto";
import type { Config } from "../kernel/config/index.ts";
import type { Runtime } from "../kernel/runtime.ts";
import { VERSION } from "../kernel/version.ts";
import type { SharedPort } from "../sfu/transport/port-sharing/port-sharing.ts";
import { EmbeddedMedia } from "./embedded-media.ts";
import { mediaAddresses } from "./media-addresses.ts";
import type { MediaNodes } from "./media-nodes.ts";
import { NativeUnavailable } from "./native-library.ts";
import { type ControlPlane, type NodeReporter, startNodeReporter } from "./node-reporter.ts";
import { SPREAD_FROM } from "./room-sites.ts";

export type OpenedMedia = {
  node: EmbeddedMedia;
  /** The IP addresses that are announced to clients. */
  announce: string[];
  /** The bound address. */
  hostname: string;
  /** ICE credentials with which `stoa doctor` checks the media ports. */
  probe: { ufrag: string; pwd: string };
};

type LocalMedia = Omit<OpenedMedia, "hostname"> & {
  /** UDP (and TCP) ports of the workers. */
  ports: number[];
  /** Registers with the control plane and keeps reporting to it. */
  report(to: { controlPlane: ControlPlane; internalUrl: string }): NodeReporter;
  close(): Promise<void>;
};

/** The media node cannot start; the message tells the operator the remedy. */
export class MediaRefused extends Error {
  override readonly name = "MediaRefused";
}

export function mediaRefused(error: Error, { MEDIA_WORKERS, MEDIA_UDP_PORT: port }: Config, hostname: string) {
  if (error instanceof NativeUnavailable) return new MediaRefused(error.message);
  const range = MEDIA_WORKERS === 1 ? `port ${port}` : `ports ${port} to ${port + MEDIA_WORKERS - 1}`;
  const isTaken =
    (error as NodeJS.ErrnoException).code === "EADDRINUSE" || /address already in use|EADDRINUSE/i.test(error.message);
  const place = hostname === "::" || hostname === "0.0.0.0" ? "" : ` of ${hostname}`;
  const reason = isTaken
    ? `the media ${range}${place} (UDP) ${MEDIA_WORKERS === 1 ? "is" : "are"} taken`
    : `the media ${range}${place} (UDP): ${error.message}`;
  return new MediaRefused(`${reason}. Choose another with --media-udp-port.`);
}

type OpenMediaOptions = {
  /** The memory of the clients behind this machine's relay. */
  relayed?: SharedArrayBuffer | undefined;
  /** The worker threads, if they are already loading their code. */
  threads?: EmbeddedMedia | null | undefined;
  /** The media ports of the process that this one succeeds. */
  succeeds?: readonly SharedPort[];
};

/** Starts the media workers of this process. */
export async function openMedia(
  { config, log }: Pick<Runtime, "config" | "log">,
  { relayed, threads, succeeds = [] }: OpenMediaOptions = {},
): Promise<OpenedMedia> {
  const { MEDIA_WORKERS: workers, MEDIA_UDP_PORT: port } = config;
  const { MEDIA_FAN_OUT: fanOut, MEDIA_WORKER_MAX_MEMORY_MB: maxMemoryMb } = config;
  const node = threads ?? EmbeddedMedia.spawn(workers, log);
  const { announce, hostname } = await mediaAddresses(config, log).catch(async (error) => {
    await node.close();
    throw error;
  });
  const probe = { ufrag: "stoa-doctor", pwd: randomBytes(24).toString("base64url") };
  const relay = relayed ? { relayed } : {};
  await node
    .listen({
      port,
      hostname,
      announce,
      tcp: true,
      fanOut,
      maxMemoryMb,
      warmUp: config.MEDIA_WARM_UP,
      probe,
      spreadFrom: spreadFrom(config),
      succeeds,
      ...relay,
    })
    .catch((error: Error) => {
      throw mediaRefused(error, config, hostname);
    });
  return { node, announce, hostname, probe };
}

/** Adds the media node of this process; it reports to the control plane once HTTP is up. */
export async function startLocalMedia(
  { config, log, timers }: Runtime,
  nodes: MediaNodes,
  opening: Promise<OpenedMedia>,
): Promise<LocalMedia> {
  const { SFU_NODE_NAME: name, SFU_REGION: region } = config;
  const { node, announce, hostname, probe } = await opening;
  const capacity = capacityOf(config);
  nodes.add(name, node);
  return {
    node,
    announce,
    probe,
    ports: node.ports,
    report({ controlPlane, internalUrl }) {
      nodes.add(name, node, internalUrl);
      return startNodeReporter({
        node,
        registration: { name, region, publicHost: announce[0] ?? hostname, internalUrl, capacity, version: VERSION },
        controlPlane,
        heartbeatTimeoutSeconds: config.SFU_HEARTBEAT_TIMEOUT_SECONDS,
        timers,
        log,
      });
    },
    close: () => node.close(),
  };
}

/** The maximum number of rooms; undefined without a limit. */
export function capacityOf({ SFU_CAPACITY }: Config): number | undefined {
  return SFU_CAPACITY === 0 ? undefined : SFU_CAPACITY;
}

export function spreadFrom({ MEDIA_SPREAD }: Config): number {
  return MEDIA_SPREAD === "auto" ? SPREAD_FROM : Number.POSITIVE_INFINITY;
}
