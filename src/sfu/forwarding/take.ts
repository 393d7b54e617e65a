// Packets of media that native code takes as they come, many at once: opened, noted, and described for their copies.

import type { PacketRing } from "../wire/rtp/packet-ring.ts";
import type { SeatTable } from "./seat-table.ts";
import type { SendBatch } from "./send-batch.ts";

/** Packets in a row of one lane and one moment in its time. Re-used between calls. */
export type TakenRun = {
  lane: number;
  /** Of the datagrams that were handed over, and how many of them from there on. */
  first: number;
  count: number;
  /** The number of the first, unwrapped. */
  extended: number;
  timestamp: number;
  /** Of whole packets, and of their payloads. */
  bytes: number;
  payloadBytes: number;
  /** They have transport-wide numbers. */
  numbered: boolean;
  /** −1: not told. */
  audioLevel: number;
  /** Of the last; a length of 0 when it is not VP8. */
  vp8: { length: number; pictureId: number; wide: boolean; tl0PicIdx: number; keyIdx: number };
};

export const MAX_TAKE = 64;

/** What one call of `IncomingSrtp.take` works on, and what it has found. One serves all connections of a worker. */
export interface Take {
  /** These are to be taken: at most MAX_TAKE, all of one connection. */
  begin(datagrams: readonly Uint8Array[], nowMs: number): void;
  readonly runs: number;
  run(index: number): TakenRun;
  /** Of the first that was not taken: 0 when not a byte of it was touched, its plain length, or less than 0: it was refused. */
  readonly outcome: number;
  /** Of those that were taken. */
  datagram(index: number): Uint8Array;
  plainLength(index: number): number;
  /** Has the ring keep one of them. */
  keep(index: number, ring: PacketRing, extended: number, nowMs: number): void;
  /** Every seat's copies of a run, viewer by viewer. */
  fanOut(run: TakenRun, table: SeatTable, batch: SendBatch): void;
}
