/**
 * Packets of media of one connection, kept until the turn of the loop is over or something else is to be done: a browser sends
 * all packets of a frame at once, and what is usual about them is done by one call.
 */
import type { LaneTable } from "../forwarding/lanes.ts";
import { MAX_TAKE, type Take, type TakenRun } from "../forwarding/take.ts";
import type { IncomingSrtp } from "../srtp/srtp.ts";

/** Where packets go. */
export type MediaSink = {
  readonly lanes: LaneTable<object>;
  onRun(run: TakenRun, take: Take, nowMs: number): void;
};

export type MediaIntakeHost = {
  take: Take;
  incoming: Required<Pick<IncomingSrtp, "take" | "unprotectRtp">>;
  sink: MediaSink;
  /** Packets have proved authentic. */
  lives(nowMs: number): void;
  onRtp(data: Buffer, length: number, nowMs: number): void;
};

export class MediaIntake {
  readonly #host: MediaIntakeHost;
  #waiting: Buffer[] = [];
  #spare: Buffer[] = [];
  #nowMs = 0;

  constructor(host: MediaIntakeHost) {
    this.#host = host;
  }

  /** True: it is the first one, and `finish` has to be called. What came at the same turn came at the same time. */
  add(data: Buffer, nowMs: number): boolean {
    const isFirst = this.#waiting.length === 0;
    if (isFirst) this.#nowMs = nowMs;
    this.#waiting.push(data);
    if (this.#waiting.length === MAX_TAKE) this.finish();
    return isFirst;
  }

  finish(): void {
    const waiting = this.#waiting;
    const count = waiting.length;
    if (count === 0) return;
    this.#waiting = this.#spare;
    this.#spare = waiting;
    const { take, incoming, sink } = this.#host;
    try {
      take.begin(waiting, this.#nowMs);
      for (let at = 0; at < count; at++) {
        const taken = incoming.take(sink.lanes, at);
        const { outcome } = take;
        if (taken > at) this.#taken();
        at = taken;
        if (at < count) this.#ordinary(waiting[at] as Buffer, outcome);
      }
    } finally {
      waiting.length = 0;
    }
  }

  /** The connection is over. */
  clear(): void {
    this.#waiting.length = 0;
  }

  #taken(): void {
    const { take, sink, lives } = this.#host;
    lives(this.#nowMs);
    for (let i = 0; i < take.runs; i++) sink.onRun(take.run(i), take, this.#nowMs);
  }

  #ordinary(data: Buffer, outcome: number): void {
    const { incoming, lives, onRtp } = this.#host;
    const length = outcome === 0 ? incoming.unprotectRtp(data) : outcome;
    if (length < 0) return;
    lives(this.#nowMs);
    onRtp(data, length, this.#nowMs);
  }
}
