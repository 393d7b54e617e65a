// What is usual about the packets of a publisher is done by one call for many of them (take.c). One memory serves all connections
// of a worker: what is in it is used up before the next call.

import { ptr } from "bun:ffi";
import type { LaneTable } from "../forwarding/lanes.ts";
import type { SeatTable } from "../forwarding/seat-table.ts";
import type { SendBatch } from "../forwarding/send-batch.ts";
import { MAX_TAKE, type Take, type TakenRun } from "../forwarding/take.ts";
import type { PacketRing } from "../wire/rtp/packet-ring.ts";
import { absSendTime } from "../wire/rtp/rtp-extensions.ts";
import type { NativeEngine } from "./library.ts";
import { copyRun, SOURCE_WORDS } from "./native-fan-out-alike.ts";

/** Places in `taking` of native.h, in words of 32 bits behind the double that it begins with. */
const HEAD = { absSendTime: 2, count: 3, runs: 4, outcome: 5 } as const;
const DATA_AT = 8;
const LENGTHS_AT = DATA_AT + MAX_TAKE * 2;
const RUNS_AT = LENGTHS_AT + MAX_TAKE;
export const RUN_WORDS = 16;
/** Behind the double that a run begins with. */
const RUN = {
  lane: 2,
  first: 3,
  count: 4,
  timestamp: 5,
  bytes: 6,
  payloadBytes: 7,
  numbered: 8,
  audioLevel: 9,
  vp8Bytes: 10,
  pictureId: 11,
  wide: 12,
  tl0: 13,
  keyIdx: 14,
} as const;
const SOURCES_AT = RUNS_AT + MAX_TAKE * RUN_WORDS;
const WORDS = SOURCES_AT + MAX_TAKE * SOURCE_WORDS;

/** Hands datagrams to native code, and tells what it made of them. */
export class NativeTake implements Take {
  readonly #native: NativeEngine;
  readonly #words = new Uint32Array(new ArrayBuffer(WORDS * 4));
  readonly #signed = new Int32Array(this.#words.buffer);
  readonly #doubles = new Float64Array(this.#words.buffer);
  readonly #sourcesAt = ptr(this.#words) + SOURCES_AT * 4;
  #datagrams: readonly Uint8Array[] = [];
  readonly #run = emptyRun();

  constructor(native: NativeEngine) {
    this.#native = native;
  }

  begin(datagrams: readonly Uint8Array[], nowMs: number): void {
    const words = this.#words;
    const count = Math.min(datagrams.length, MAX_TAKE);
    this.#datagrams = datagrams;
    this.#doubles[0] = nowMs;
    words[HEAD.absSendTime] = absSendTime(nowMs);
    words[HEAD.count] = count;
    for (let i = 0; i < count; i++) {
      const data = datagrams[i] as Uint8Array;
      this.#doubles[DATA_AT / 2 + i] = ptr(data);
      words[LENGTHS_AT + i] = data.length;
    }
  }

  take(receiver: number, lanes: LaneTable<object>, from: number): number {
    const { functions, engine } = this.#native;
    return functions.stoa_take(engine, receiver, lanes.memory, this.#words, from);
  }

  get runs(): number {
    return this.#words[HEAD.runs] as number;
  }

  get outcome(): number {
    return this.#signed[HEAD.outcome] as number;
  }

  run(index: number): TakenRun {
    return readRun(this.#words, this.#signed, this.#doubles, RUNS_AT + index * RUN_WORDS, this.#run);
  }

  datagram(index: number): Uint8Array {
    return this.#datagrams[index] as Uint8Array;
  }

  plainLength(index: number): number {
    return this.#words[LENGTHS_AT + index] as number;
  }

  keep(index: number, ring: PacketRing, extended: number, nowMs: number): void {
    ring.put(extended, this.datagram(index), this.plainLength(index), nowMs);
  }

  fanOut({ first, count }: TakenRun, table: SeatTable, batch: SendBatch): void {
    copyRun(this.#native, this.#sourcesAt + first * SOURCE_WORDS * 4, count, table, batch);
  }
}

export function emptyRun(): TakenRun {
  return {
    ...{ lane: 0, first: 0, count: 0, extended: 0, timestamp: 0, bytes: 0, payloadBytes: 0 },
    ...{ numbered: false, audioLevel: -1 },
    vp8: { length: 0, pictureId: -1, wide: false, tl0PicIdx: -1, keyIdx: -1 },
  };
}

/** `run` of native.h, which lies at word `at` of a memory that is seen in three ways. */
export function readRun(
  words: Uint32Array,
  signed: Int32Array,
  doubles: Float64Array,
  at: number,
  run: TakenRun,
): TakenRun {
  run.extended = doubles[at / 2] as number;
  run.lane = words[at + RUN.lane] as number;
  run.first = words[at + RUN.first] as number;
  run.count = words[at + RUN.count] as number;
  run.timestamp = words[at + RUN.timestamp] as number;
  run.bytes = words[at + RUN.bytes] as number;
  run.payloadBytes = words[at + RUN.payloadBytes] as number;
  run.numbered = words[at + RUN.numbered] !== 0;
  run.audioLevel = signed[at + RUN.audioLevel] as number;
  const { vp8 } = run;
  vp8.length = signed[at + RUN.vp8Bytes] as number;
  vp8.pictureId = signed[at + RUN.pictureId] as number;
  vp8.wide = signed[at + RUN.wide] !== 0;
  vp8.tl0PicIdx = signed[at + RUN.tl0] as number;
  vp8.keyIdx = signed[at + RUN.keyIdx] as number;
  return run;
}
