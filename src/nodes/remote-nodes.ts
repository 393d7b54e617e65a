import { isIP } from "node:net";
import type { Runtime } from "../kernel/runtime.ts";
import { every } from "../kernel/time/timers.ts";
import type { NodeEndpoints } from "../protocol/media-node.ts";
import type { FleetService } from "./fleet.ts";
import type { MediaNodes } from "./media-nodes.ts";
import type { OlderProcess } from "./older-process.ts";
import type { RelayedClient } from "./relayed-events.ts";
import { type NodeRefusal, RemoteMedia } from "./remote-media.ts";

type RemoteNodes = {
  /** Resolves when nodes that were known before this process started have been reached, or are unreachable. */
  settled: Promise<void>;
  /** Calls the listener now and on every change with the media endpoints of all known nodes. */
  onEndpoints(listener: (endpoints: NodeEndpoints[]) => void): void;
  stop(): Promise<void>;
};

type RemoteNodesDeps = {
  fleet: FleetService;
  nodes: MediaNodes;
  /** The secret for the node of this name; null when the node must not be contacted. */
  secretFor: (serverName: string) => string | null;
  relayedClient: RelayedClient | null;
  term?: number;
  /** The older processes of an upgrade. They are not registered, so no new room is placed on them. */
  older?: readonly OlderProcess[];
};

type Link = { internalUrl: string; secret: string; media: RemoteMedia; answersAt: string[] };

/** A node that sends no heartbeat for longer is not contacted until it sends one again. */
const FORGET_AFTER_MS = 10 * 60_000;
/** The connection to a node whose secret was revoked, even by another process, is closed within this time. */
const REVOKED_WITHIN_MS = 5_000;
/** How long a start waits for nodes that may have rooms from an earlier run. */
const SETTLE_MS = 3_000;

/** Keeps a connection to every registered node outside of this process. */
export function connectRemoteNodes(
  { bus, config, log, lookup, metrics, now, timers }: Runtime,
  { fleet, nodes, secretFor, relayedClient, term = 0, older = [] }: RemoteNodesDeps,
): RemoteNodes {
  const olderByName = new Map(older.map((one) => [one.name, one]));
  const links = new Map<string, Link>();
  const endpointListeners: ((endpoints: NodeEndpoints[]) => void)[] = [];
  const refusals = metrics.counter(
    "stoa_media_node_messages_refused_total",
    "Messages of media nodes that were dropped, by reason",
    ["reason"],
  );

  function publishEndpoints(): void {
    const endpoints = [...links.values()].flatMap(({ media: { endpoints }, answersAt }) =>
      endpoints ? [{ ...endpoints, answersAt }] : [],
    );
    for (const listener of endpointListeners) listener(endpoints);
  }

  /** The host name is resolved for each connection, so that a node that moved is found. */
  async function resolve(link: Link): Promise<void> {
    const host = new URL(link.internalUrl).hostname.replace(/^\[|\]$/g, "");
    link.answersAt = isIP(host) ? [host] : await lookup(host).catch(() => []);
    publishEndpoints();
  }

  function drop(serverName: string): void {
    void links.get(serverName)?.media.close();
    links.delete(serverName);
    nodes.remove(serverName);
    publishEndpoints();
  }

  function ensure(serverName: string, internalUrl: string): void {
    if (serverName === config.SFU_NODE_NAME) return;
    const known = links.get(serverName);
    const secret = olderByName.get(serverName)?.secret ?? secretFor(serverName);
    if (known && known.internalUrl === internalUrl && known.secret === secret) return;
    if (known) {
      known.media.abandon();
      drop(serverName);
    }
    if (secret === null) return;
    if (!/^https?:$/.test(URL.parse(internalUrl)?.protocol ?? "")) {
      log.warn({ serverName }, "media node: internalUrl is not an HTTP URL");
      return;
    }
    const onRefused = (reason: NodeRefusal) => refusals.inc({ reason });
    const onEndpoints = () => void resolve(link);
    const callbacks = { onEndpoints, onRefused, ...(relayedClient ? { relayedClient } : {}) };
    const sharesDisk = olderByName.get(serverName)?.recordings !== undefined;
    const media = new RemoteMedia({ serverName, internalUrl, secret, term, timers, log, sharesDisk, ...callbacks });
    const link: Link = { internalUrl, secret, media, answersAt: [] };
    links.set(serverName, link);
    nodes.add(serverName, media, internalUrl);
  }

  const isRecent = ({ seenAt }: { seenAt: number }) => now() - seenAt < FORGET_AFTER_MS;
  for (const row of [...older, ...fleet.all().filter(isRecent)]) ensure(row.name, row.internalUrl);
  bus.on("rtcServerSeen", ({ name, internalUrl }) => ensure(name, internalUrl));
  const cancelForgetting = every({ timers, log }, 60_000, () => {
    const recent = new Set(
      fleet
        .all()
        .filter(isRecent)
        .map(({ name }) => name),
    );
    for (const [name, { media }] of links) if (!recent.has(name) && !media.remote.connected) drop(name);
  });

  const cancelRevoking = every({ timers, log }, REVOKED_WITHIN_MS, () => {
    for (const [name, { internalUrl }] of links) ensure(name, internalUrl);
  });

  const reached = Promise.all([...links.values()].map(({ media }) => media.settled));
  return {
    settled: Promise.race([reached, Bun.sleep(SETTLE_MS)]).then(() => {}),
    onEndpoints(listener) {
      endpointListeners.push(listener);
      publishEndpoints();
    },
    async stop() {
      cancelForgetting();
      cancelRevoking();
      for (const serverName of [...links.keys()]) drop(serverName);
    },
  };
}
