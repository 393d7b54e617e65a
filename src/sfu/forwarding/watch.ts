// Native code that waits at the socket in the place of the loop, and forwards usual packets by itself.

import type { LaneTable } from "./lanes.ts";
import type { Descriptor, SendBatch } from "./send-batch.ts";
import type { Take, TakenRun } from "./take.ts";

/** A peer whose packets may come: from where, and what opens and describes them. */
export type WatchedSession = {
  readonly receiver: number;
  readonly lanes: LaneTable<object>;
  readonly port: number;
  /** As `addressWords` has it. */
  readonly address: Uint32Array;
};

export const MAX_SESSIONS = 64;

/** One watch after the other: what the last one has found is read before the next begins. */
export interface Watch extends Take {
  /** Until time is up, or something comes that is not usual, or `loop` is ready: the descriptor by which the thread's loop waits. */
  wait(terms: {
    socket: Descriptor;
    loop: number;
    sessions: readonly WatchedSession[];
    /** Nothing is in it; it lends its memory. */
    batch: SendBatch;
    nowMs: number;
    forMs: number;
    /** So long the first of the reports that come may wait to be read. */
    patienceMs: number;
  }): void;
  /** Which session a run is of, and when it came. */
  sessionOf(run: number): number;
  cameAtMs(run: number): number;
  run(index: number): TakenRun;
  datagram(index: number): Uint8Array<ArrayBuffer>;
  /** When it was over. */
  readonly endedAtMs: number;
  /** Bytes of usual packets that a session has sent. */
  bytesFrom(session: number): number;
  readonly sent: { packets: number; bytes: number; dropped: number };
  /**
   * Of those that were taken, so many are reports which ask for nothing: they were laid aside. Which datagram each of them is, and
   * when it came; its outcome and session are as those of the rest.
   */
  readonly reports: number;
  /** As it lies in its slot, which is used again with the next watch: nobody keeps it. */
  report(report: number): Buffer;
  reportAt(report: number): number;
  reportCameAtMs(report: number): number;
  reportSession(report: number): number;
  reportOutcome(report: number): number;
  /** Datagrams from `taken` up to `received` are left to be handled. Of the first, `outcome` and its session tell more. */
  readonly taken: number;
  readonly received: number;
  readonly restSession: number;
  portOf(datagram: number): number;
  addressOf(datagram: number, isV6: boolean): string;
}
