/** What the flight recorder of a connection holds: headers, reports and estimates of its last seconds, and no content. */
import { type Static, Type } from "@sinclair/typebox";

const Rows = (columns: string) => Type.Array(Type.Array(Type.Number()), { description: columns });

export const FlightDump = Type.Object({
  version: Type.Literal(1),
  /** Milliseconds since 1970, from which every other time counts. */
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
      packet: Type.String({ description: "A report of the client as base64, without descriptions of its source" }),
    }),
  ),
  states: Rows(
    "atMs, estimate in bit/s, queue in ms, RTT in ms, loss from and towards it in percent, jitter in ms; -1: not known",
  ),
});
export type FlightDump = Static<typeof FlightDump>;
