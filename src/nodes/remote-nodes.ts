import type { Runtime } from "../kernel/runtime.ts";
import { every } from "../kernel/time/timers.ts";
import type { MediaPlaces } from "../protocol/media-node.ts";
import type { FleetService } from "./fleet.ts";
import type { MediaNodes } from "./nodes.ts";
import type { ClientBehind } from "./relayed-events.ts";
import { type NodeRefusal, RemoteMedia } from "./remote.ts";

type RemoteNodes = {
  /** Nodes that were there before this process have been reached, or cannot be. */
  settled: Promise<void>;
  /** Where the media of those that are known is reached; again whenever that changes. */
  onPlaces(listener: (places: MediaPlaces[]) => void): void;
  stop(): Promise<void>;
};

type RemoteNodesDeps = {
  fleet: FleetService;
  nodes: MediaNodes;
  /** What to show the node of that name; null: it is not to be called. */
  secretFor: (serverName: string) => string | null;
  clientBehind: ClientBehind | null;
  term?: number;
};

/** A node silent for longer is dialled no more, until it reports again. */
const FORGET_AFTER_MS = 10 * 60_000;
/** A node whose secret was revoked, by another process too, is hung up on. */
const REVOKED_WITHIN_MS = 5_000;
/** How long a start waits for nodes that may hold calls from before it. */
const SETTLE_MS = 3_000;

/** Keeps a connection to every registered node that lives outside this process. */
export function connectRemoteNodes(
  { bus, config, log, metrics, now, timers }: Runtime,
  { fleet, nodes, secretFor, clientBehind, term = 0 }: RemoteNodesDeps,
): RemoteNodes {
  const links = new Map<string, { internalUrl: string; secret: string; media: RemoteMedia }>();
  const placesListeners: ((places: MediaPlaces[]) => void)[] = [];
  const refusals = metrics.counter(
    "stoa_media_node_messages_refused_total",
    "Messages of media nodes that were dropped, by reason",
    ["reason"],
  );

  function tellPlaces(): void {
    const places = [...links.values()].flatMap(({ media }) => media.places ?? []);
    for (const listener of placesListeners) listener(places);
  }

  function drop(serverName: string): void {
    void links.get(serverName)?.media.close();
    links.delete(serverName);
    nodes.remove(serverName);
    tellPlaces();
  }

  function ensure(serverName: string, internalUrl: string): void {
    if (serverName === config.SFU_NODE_NAME) return;
    const known = links.get(serverName);
    const secret = secretFor(serverName);
    if (known && known.internalUrl === internalUrl && known.secret === secret) return;
    if (known) {
      known.media.abandon();
      drop(serverName);
    }
    if (secret === null) return;
    if (!/^https?:$/.test(URL.parse(internalUrl)?.protocol ?? "")) {
      log.warn({ serverName }, "media node: internalUrl is no http or https address");
      return;
    }
    const onRefused = (reason: NodeRefusal) => refusals.inc({ reason });
    const told = { onPlaces: tellPlaces, onRefused, ...(clientBehind ? { clientBehind } : {}) };
    const media = new RemoteMedia({ serverName, internalUrl, secret, term, timers, log, ...told });
    links.set(serverName, { internalUrl, secret, media });
    nodes.add(serverName, media, internalUrl);
  }

  const isRecent = ({ seenAt }: { seenAt: number }) => now() - seenAt < FORGET_AFTER_MS;
  for (const row of fleet.all().filter(isRecent)) ensure(row.name, row.internalUrl);
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
    onPlaces(listener) {
      placesListeners.push(listener);
      tellPlaces();
    },
    async stop() {
      cancelForgetting();
      cancelRevoking();
      for (const serverName of [...links.keys()]) drop(serverName);
    },
  };
}
