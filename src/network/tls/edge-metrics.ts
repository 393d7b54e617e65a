import type { Metrics } from "../../kernel/metrics.ts";
import type { CertificateSource } from "./certificates.ts";
import type { Edge } from "./edge.ts";

/** Figures of the one port for Prometheus. */
export function measureEdge(metrics: Metrics, edge: Edge, source: CertificateSource): void {
  metrics.gaugesOf(
    {
      stoa_edge_handshakes_total: "TLS handshakes",
      stoa_edge_http_connections: "Connections that carry HTTP or WebSockets",
      stoa_edge_turn_connections: "Connections that speak TURN",
      stoa_edge_waiting_connections: "Connections that have said nothing yet",
      stoa_edge_refused_connections_total: "Connections refused: too many of one address",
      stoa_edge_late_connections_total: "Connections closed because they said nothing in time",
      stoa_turn_allocations: "Relays in use",
      stoa_turn_allocations_total: "Relays given",
      stoa_turn_in_bytes_total: "Bytes relayed from clients to media ports",
      stoa_turn_out_bytes_total: "Bytes relayed from media ports to clients",
      stoa_turn_dropped_packets_total: "Packets lost in the relay: over the budget, or a client too slow",
    },
    async () => {
      const { turn, ...stats } = await edge.stats();
      return {
        stoa_edge_handshakes_total: stats.handshakes,
        stoa_edge_http_connections: stats.httpConnections,
        stoa_edge_turn_connections: stats.turnConnections,
        stoa_edge_waiting_connections: stats.waiting,
        stoa_edge_refused_connections_total: stats.refused,
        stoa_edge_late_connections_total: stats.late,
        stoa_turn_allocations: turn?.allocations ?? null,
        stoa_turn_allocations_total: turn?.allocationsMade ?? null,
        stoa_turn_in_bytes_total: turn?.bytesIn ?? null,
        stoa_turn_out_bytes_total: turn?.bytesOut ?? null,
        stoa_turn_dropped_packets_total: turn?.dropped ?? null,
      };
    },
  );
  const refusals = async () => ({ ...(await edge.stats()).turn?.refusals });
  metrics.gaugesBy(
    "stoa_turn_refusals_total",
    "Requests that the relay refused, by the code it gave",
    "code",
    refusals,
  );
  metrics.gaugeOf("stoa_certificate_expires_seconds", "When the certificate of DOMAIN runs out, in Unix time", () => {
    const expiresAt = source.status()?.expiresAt ?? null;
    return expiresAt === null ? null : expiresAt / 1_000;
  });
}

/** Why nobody can come in yet; null once there is a certificate, be it an old one. */
export function certificateProblem(source: CertificateSource): string | null {
  const status = source.status();
  if (status === null || status.expiresAt !== null) return null;
  return status.problem ?? `the certificate of ${status.domain} is being asked for`;
}
