/** The messages between the main thread and the TLS thread. */
import type { Certificate } from "../../kernel/http/serving/certificate.ts";
import type { LoopbackTransport } from "../../kernel/net/loopback-transport.ts";
import type { TurnCounters, TurnLimits } from "../turn/allocations.ts";
import type { Peer } from "../turn/transports.ts";
import type { AdmissionLimits } from "./admission.ts";

export type TurnSettings = {
  secret: string;
  realm: string;
  /** The relayed addresses for clients, at most one of each family. */
  relayAddresses: string[];
  limits: TurnLimits;
  /** The port of TURN without TLS, over UDP and TCP; null when it is off. */
  port: number | null;
};

export type TlsThreadSettings = {
  hostname: string;
  port: number;
  /** An older process listens on the port, too. */
  reusePort: boolean;
  upstream: { hostname: string; port: number };
  loopback: LoopbackTransport | null;
  certificate: Certificate | null;
  trustedProxies: readonly string[];
  admission: AdmissionLimits;
  turn: TurnSettings | null;
  tcpClients: SharedArrayBuffer;
  udpClients: SharedArrayBuffer;
  nodeClients: SharedArrayBuffer;
};

export type TlsStats = {
  handshakes: number;
  httpConnections: number;
  turnConnections: number;
  waiting: number;
  refused: number;
  late: number;
  turn: TurnCounters | null;
};

export type ToTlsThread =
  | { type: "start"; settings: TlsThreadSettings }
  | { type: "certificate"; certificate: Certificate }
  /** The certificate for clients that offer `acme-tls/1`; null when no challenge is pending. */
  | { type: "challenge"; id: number; certificate: Certificate | null }
  | { type: "peers"; peers: Peer[] }
  | { type: "revoke"; id: string; untilMs: number }
  | { type: "ping"; id: number }
  | { type: "drain" }
  /** A newer process accepts new connections; open ones stay here. */
  | { type: "stopListening" };

export type FromTlsThread =
  | { type: "started"; port: number; turnPort: number | null }
  /** A port is unavailable: the TLS port, or the port of TURN without TLS. */
  | { type: "refused"; message: string; code: string | null; port: number; isTurnPort: boolean }
  | { type: "response"; id: number; stats: TlsStats }
  | { type: "fault"; message: string };
