/** What the main thread and the edge say to each other. */
import type { InnerWay } from "../../kernel/net/inner-way.ts";
import type { TurnLimits } from "../turn/allocations.ts";
import type { TurnCounters } from "../turn/counters.ts";
import type { Peer } from "../turn/line.ts";
import type { AdmissionLimits } from "./admission.ts";

/** A certificate chain and its private key, both as PEM text. */
export type EdgeCertificate = { cert: string; key: string };

export type EdgeTurn = {
  secret: string;
  realm: string;
  /** What clients are told to have, one for each family at most. */
  relayAddresses: string[];
  limits: TurnLimits;
  /** Also plain TURN, over UDP and TCP. Null: none. */
  port: number | null;
};

export type EdgeSettings = {
  hostname: string;
  /** 0: any free one. */
  port: number;
  /** Where HTTP goes. */
  upstream: { hostname: string; port: number };
  /** A shorter way there; null when there is none. */
  inner: InnerWay | null;
  certificate: EdgeCertificate | null;
  /** Whose PROXY headers are believed. */
  trustedProxies: readonly string[];
  admission: AdmissionLimits;
  turn: EdgeTurn | null;
  tcpClients: SharedArrayBuffer;
  udpClients: SharedArrayBuffer;
  /** Behind the relay's sockets to nodes. */
  outerClients: SharedArrayBuffer;
};

export type EdgeStats = {
  handshakes: number;
  /** Open now. */
  httpConnections: number;
  turnConnections: number;
  waiting: number;
  refused: number;
  late: number;
  turn: TurnCounters | null;
};

export type ToEdge =
  | { type: "start"; settings: EdgeSettings }
  | { type: "certificate"; certificate: EdgeCertificate }
  /** The certificate for who offers `acme-tls/1`; null when no challenge is pending any more. */
  | { type: "challenge"; id: number; certificate: EdgeCertificate | null }
  | { type: "peers"; peers: Peer[] }
  | { type: "end"; id: string; untilMs: number }
  | { type: "ping"; id: number }
  /** New connections are refused from now on. */
  | { type: "drain" };

export type FromEdge =
  | { type: "started"; port: number; turnPort: number | null }
  /** A port could not be had: the one of TURN without TLS, or the edge's own. */
  | { type: "refused"; message: string; code: string | null; port: number; isTurnPort: boolean }
  | { type: "answer"; id: number; stats: EdgeStats }
  | { type: "fault"; message: string };
