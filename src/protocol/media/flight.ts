/** A dump of a connection's flight recorder: headers, reports and estimates of its last seconds, without content. */
import { type Static, Type } from "@sinclair/typebox";

const Rows = (columns: string) => Type.Array(Type.Array(Type.Number()), { description: columns });

export const FlightDump = Type.Object({
  version: Type.Literal(1),
  /** Milliseconds since 1970; all other times in the dump are relative to it. */
  sinceMs: Type.Number(),
  lastedMs: Type.Number(),
  streams: Type.Array(
    Type.Object({
      ssrc: Type.Integer(),
      kind: Type.String(),
      codec: Type.String(),
      clockRate: Type.Integer(),
      rid: Type.Union([Type.String(), Type.Null()]),
    }),
  ),
  received: Rows("atMs, ssrc, sequence number, timestamp, bytes, marker (0 or 1), retransmitted (0 or 1)"),
  sent: Rows("atMs, transport-wide sequence number, bytes, number of the probe or 0"),
  rtcp: Type.Array(
    Type.Object({
      atMs: Type.Number(),
      packet: Type.String({ description: "An RTCP packet of the client as base64, without source descriptions" }),
    }),
  ),
  states: Rows(
    "atMs, estimate in bit/s, queue in ms, RTT in ms, loss from and to the client in percent, jitter in ms; -1: unknown",
  ),
});
export type FlightDump = Static<typeof FlightDump>;
