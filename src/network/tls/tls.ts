/** Plans and starts TLS in front of the plain HTTP server: the TLS thread, its certificate and its TURN relay. */
import ipaddr from "ipaddr.js";
import type { Config } from "../../kernel/config/index.ts";
import { type ListenAddresses, listenAddresses } from "../../kernel/config/listen-addresses.ts";
import type { Log } from "../../kernel/log.ts";
import type { Metrics } from "../../kernel/metrics.ts";
import { createRangeCheck, isLoopback, unmappedAddress } from "../../kernel/net/addresses.ts";
import { shareListeningPort, takeListeningPort } from "../../kernel/net/listening-sockets.ts";
import type { LoopbackTransport } from "../../kernel/net/loopback-transport.ts";
import type { Now } from "../../kernel/time/clock.ts";
import type { Timers } from "../../kernel/time/timers.ts";
import type { MediaEndpoints, NodeEndpoints } from "../../protocol/media-node.ts";
import type { Peer } from "../turn/transports.ts";
import { type CertificateSource, certificateSource } from "./certificates.ts";
import type { TurnSettings } from "./thread-messages.ts";
import { type ClientTables, createClientTables, TlsMultiplexer } from "./tls-multiplexer.ts";

type Deps = { config: Config; log: Log; timers: Timers; now: Now };

/** The plan is made before any port is opened, so that unusable certificate files prevent the start. */
export type TlsPlan = ListenAddresses & { source: CertificateSource; tables: ClientTables };

export function planTls(deps: Deps): TlsPlan | null {
  const addresses = listenAddresses(deps.config);
  const source = certificateSource(deps);
  return addresses && source ? { ...addresses, source, tables: createClientTables() } : null;
}

export type RunningTls = {
  multiplexer: TlsMultiplexer;
  relayToNodes(nodes: readonly NodeEndpoints[]): void;
  /** Lets a newer process listen on the ports as well, or ends that; returns whether it may. */
  share(isShared: boolean): boolean;
  /** Leaves new connections and the certificate to a newer process. */
  stopListening(): Promise<void>;
  drain(): void;
  close(): Promise<void>;
};

type StartOptions = Deps & {
  plan: TlsPlan;
  upstreamPort: number;
  loopback?: LoopbackTransport | null;
  media: MediaEndpoints;
  turnSecret: string | null;
  /** The thread, if it is already loading its code. */
  thread?: TlsMultiplexer | null | undefined;
  /** The port at which an older process listens. New connections come here from now on. */
  succeeds?: { port: number } | null;
};

export async function startTls(options: StartOptions): Promise<RunningTls> {
  const { plan, upstreamPort, loopback = null, media, turnSecret, thread, succeeds = null, ...deps } = options;
  const reusePort = succeeds !== null;
  const { config, log } = deps;
  const turn = turnSecret === null || config.TURN === "off" ? null : turnSettings(config, media, turnSecret);
  const multiplexer = thread ?? new TlsMultiplexer(plan.tables, log);
  await multiplexer.listen({
    ...plan.tls,
    ...succeeds,
    reusePort,
    upstream: { hostname: reachable(plan.plain.hostname), port: upstreamPort },
    loopback,
    certificate: plan.source.first,
    trustedProxies: config.TRUSTED_PROXIES,
    turn,
  });
  multiplexer.setPeers(localPeers(media));
  const isNodeRange = createRangeCheck(config.TURN_NODE_RANGES);
  const stopSource = plan.source.start(multiplexer, media.announce, { reusePort });
  if (reusePort) for (const port of [multiplexer.port, config.HTTP_PORT]) takeListeningPort(port);
  return {
    multiplexer,
    share(isShared) {
      // The redirect port may be in use by another program, so the result is ignored.
      shareListeningPort(config.HTTP_PORT, isShared);
      return shareListeningPort(multiplexer.port, isShared);
    },
    async stopListening() {
      multiplexer.stopListening();
      await stopSource();
    },
    relayToNodes: (nodes) =>
      multiplexer.setPeers([...localPeers(media), ...nodes.flatMap((node) => nodePeers(node, isNodeRange))]),
    drain: () => multiplexer.drain(),
    async close() {
      await stopSource();
      multiplexer.close();
    },
  };
}

/**
 * One IP address gets at most a quarter of all allocations: enough for an office, and a flood leaves room for others.
 */
const ADDRESS_SHARE = 4;

function turnSettings(config: Config, { announce }: MediaEndpoints, secret: string): TurnSettings {
  const total = config.TURN_MAX_ALLOCATIONS;
  return {
    secret,
    // The realm is short because every challenge contains it.
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

/**
 * One IP address of each family. Browsers drop loopback candidates, so loopback is only used without another address.
 */
function relayAddresses(announce: readonly string[]): string[] {
  const usable = announce.filter((address) => !isLoopback(address));
  const from = usable.length > 0 ? usable : announce;
  return [from.find((address) => !address.includes(":")), from.find((address) => address.includes(":"))].filter(
    (address) => address !== undefined,
  );
}

/** The relay reaches the media workers of this machine over loopback, regardless of the address that a client uses. */
export function localPeers({ announce, ports }: MediaEndpoints): Peer[] {
  return announce.flatMap((address) =>
    ports.map((port) => ({ announced: { address, port }, reached: { address: "127.0.0.1", port } })),
  );
}

const PRIVATE_RANGES = ["private", "uniqueLocal", "carrierGradeNat"];

/**
 * A media node must not be able to make the relay send to other machines of the private network, or to loopback and
 * link-local addresses: a private address is only accepted if the node itself responds there, or if it is in the
 * operator's ranges for nodes.
 */
export function nodePeers(
  { announce, ports, answersAt }: NodeEndpoints,
  isNodeRange: (address: string) => boolean,
): Peer[] {
  const isReachable = (address: string): boolean => {
    if (!ipaddr.isValid(address)) return false;
    const range = ipaddr.process(address).range();
    if (!PRIVATE_RANGES.includes(range)) return range === "unicast";
    return isNodeRange(address) || answersAt.some((own) => unmappedAddress(own) === unmappedAddress(address));
  };
  return announce
    .filter(isReachable)
    .flatMap((address) => ports.map((port) => ({ announced: { address, port }, reached: { address, port } })));
}

function reachable(hostname: string): string {
  if (hostname === "0.0.0.0") return "127.0.0.1";
  return hostname === "::" ? "::1" : hostname;
}

export function measureTls(metrics: Metrics, multiplexer: TlsMultiplexer, source: CertificateSource): void {
  metrics.gaugesOf(
    {
      stoa_edge_handshakes_total: ["TLS handshakes", ({ handshakes }) => handshakes],
      stoa_edge_http_connections: ["Open HTTP and WebSocket connections", ({ httpConnections }) => httpConnections],
      stoa_edge_turn_connections: ["Open TURN connections", ({ turnConnections }) => turnConnections],
      stoa_edge_waiting_connections: ["Connections that have not sent a byte yet", ({ waiting }) => waiting],
      stoa_edge_refused_connections_total: [
        "Connections refused because their address had too many",
        ({ refused }) => refused,
      ],
      stoa_edge_late_connections_total: ["Connections closed because they sent nothing in time", ({ late }) => late],
      stoa_turn_allocations: ["TURN allocations in use", ({ turn }) => turn?.allocations ?? null],
      stoa_turn_allocations_total: ["TURN allocations made", ({ turn }) => turn?.allocationsMade ?? null],
      stoa_turn_in_bytes_total: ["Bytes relayed from clients to media ports", ({ turn }) => turn?.bytesIn ?? null],
      stoa_turn_out_bytes_total: ["Bytes relayed from media ports to clients", ({ turn }) => turn?.bytesOut ?? null],
      stoa_turn_dropped_packets_total: [
        "Packets dropped by the relay: over the budget, or for a slow client",
        ({ turn }) => turn?.dropped ?? null,
      ],
    },
    () => multiplexer.stats(),
  );
  const refusals = async () => ({ ...(await multiplexer.stats()).turn?.refusals });
  metrics.gaugesBy("stoa_turn_refusals_total", "TURN requests refused, by error code", "code", refusals);
  metrics.gaugeOf("stoa_certificate_expires_seconds", "When the certificate expires, in Unix time", () => {
    const expiresAt = source.expiresAt();
    return expiresAt === null ? null : expiresAt / 1_000;
  });
}

/** Why no client can connect yet; null once there is a certificate, even an expired one. */
export function certificateProblem(source: CertificateSource): string | null {
  const status = source.status();
  if (status === null || status.expiresAt !== null) return null;
  return status.problem ?? `the certificate of ${status.domain} is being requested`;
}
