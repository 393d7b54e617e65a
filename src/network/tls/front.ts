/** What stands between clients and the plain HTTP server: the edge, its certificate, and whom its relay serves. */
import ipaddr from "ipaddr.js";
import type { Now } from "../../kernel/clock.ts";
import { type EdgePlace, edgePlace } from "../../kernel/config/edge-place.ts";
import type { Config } from "../../kernel/config/index.ts";
import type { Log } from "../../kernel/log.ts";
import { isLoopback } from "../../kernel/loopback.ts";
import type { InnerWay } from "../../kernel/net/inner-way.ts";
import type { Timers } from "../../kernel/timers.ts";
import type { MediaPlaces } from "../../protocol/media-node.ts";
import type { Peer } from "../turn/line.ts";
import { type CertificateSource, certificateSource } from "./certificates.ts";
import { createEdgeTables, Edge, type EdgeTables } from "./edge.ts";
import type { EdgeTurn } from "./edge-protocol.ts";

type Deps = { config: Config; log: Log; timers: Timers; now: Now };

/** Decided before anything listens: wrong files stop a start. */
export type FrontPlan = EdgePlace & { source: CertificateSource; tables: EdgeTables };

export function planFront(deps: Deps): FrontPlan | null {
  const place = edgePlace(deps.config);
  const source = certificateSource(deps);
  return place && source ? { ...place, source, tables: createEdgeTables() } : null;
}

export type Front = {
  edge: Edge;
  /** Media nodes that the relay also serves, at their own addresses. */
  relayToNodes(places: readonly MediaPlaces[]): void;
  /** Nobody new is let in. */
  drain(): void;
  close(): Promise<void>;
};

type StartOptions = Deps & {
  plan: FrontPlan;
  /** Of the plain server. */
  upstreamPort: number;
  /** Where it also listens, if it does. */
  inner?: InnerWay | null;
  media: MediaPlaces;
  /** Null: no relay. */
  turnSecret: string | null;
};

export async function startFront(options: StartOptions): Promise<Front> {
  const { plan, upstreamPort, inner = null, media, turnSecret, ...deps } = options;
  const { config, log } = deps;
  const turn = turnSecret === null || config.TURN === "off" ? null : turnOf(config, media, turnSecret);
  const edge = await Edge.start({
    ...plan.edge,
    upstream: { hostname: reachable(plan.plain.hostname), port: upstreamPort },
    inner,
    certificate: plan.source.first,
    trustedProxies: config.TRUSTED_PROXIES,
    turn,
    tables: plan.tables,
    log,
  });
  edge.relayTo(localPeers(media));
  const stopSource = plan.source.start(edge, media.announce);
  return {
    edge,
    relayToNodes: (places) => edge.relayTo([...localPeers(media), ...places.flatMap(nodePeers)]),
    drain: () => edge.drain(),
    async close() {
      await stopSource();
      edge.close();
    },
  };
}

/** One address may have at most this share of all relays: an office fits, a flood from one place does not take all. */
const ADDRESS_SHARE = 4;

function turnOf(config: Config, { announce }: MediaPlaces, secret: string): EdgeTurn {
  const total = config.TURN_MAX_ALLOCATIONS;
  return {
    secret,
    // Short: it stands in every challenge.
    realm: "stoa",
    relayAddresses: relayAddresses(announce),
    limits: {
      total,
      perId: config.TURN_MAX_ALLOCATIONS_PER_SESSION,
      perAddress: Math.max(1, Math.ceil(total / ADDRESS_SHARE)),
      bitsPerSecond: config.TURN_MAX_BPS,
    },
    port: config.TURN_UDP_PORT === 0 ? null : config.TURN_UDP_PORT,
  };
}

/** One of each family. Browsers drop candidates of loopback, so it is named only where there is nothing else. */
function relayAddresses(announce: readonly string[]): string[] {
  const usable = announce.filter((address) => !isLoopback(address));
  const from = usable.length > 0 ? usable : announce;
  return [from.find((address) => !address.includes(":")), from.find((address) => address.includes(":"))].filter(
    (address) => address !== undefined,
  );
}

/** The media workers of this machine are reached over loopback, whichever address a client knows them by. */
export function localPeers({ announce, ports }: MediaPlaces): Peer[] {
  return announce.flatMap((address) =>
    ports.map((port) => ({ announced: { address, port }, reached: { address: "127.0.0.1", port } })),
  );
}

/** Whatever a node says, nothing of this machine itself is reached on its behalf. */
const FOREIGN_RANGES = ["unicast", "private", "uniqueLocal", "carrierGradeNat"];

export function nodePeers({ announce, ports }: MediaPlaces): Peer[] {
  return announce
    .filter((address) => ipaddr.isValid(address) && FOREIGN_RANGES.includes(ipaddr.process(address).range()))
    .flatMap((address) => ports.map((port) => ({ announced: { address, port }, reached: { address, port } })));
}

function reachable(hostname: string): string {
  if (hostname === "0.0.0.0") return "127.0.0.1";
  return hostname === "::" ? "::1" : hostname;
}
