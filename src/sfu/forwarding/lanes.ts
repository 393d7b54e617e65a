// The streams of one publisher whose packets need no decision as long as they come in order: all of their viewers have seats, and
// nobody else waits for something. They are rows of words, for native code (`../fast-path/take.c`) that opens and describes their
// packets by itself. Whatever concerns a stream otherwise closes its lane first; its next ordinary packet opens it again.

import { ptr } from "bun:ffi";
import type { MediaCodec } from "../wire/codec/keyframe.ts";
import type { SeatTable } from "./seat-table.ts";

/** Places in the head and in a row, in words of 32 bits: `publisher` and `lane` in native.h. */
const HEAD = { came: 0, seen: 2, transportSequenceId: 4, audioLevelId: 5 } as const;
const HEAD_WORDS = 8;
const ROW = { highest: 0, open: 2, ssrc: 3, payloadType: 4, codec: 5, rewritesVp8: 6 } as const;
const ROW_WORDS = 8;
const MAX_LANES = 32;
/** Behind the lanes: `audience` of native.h for each. */
const AUDIENCES_AT = HEAD_WORDS + MAX_LANES * ROW_WORDS;
const AUDIENCE = { seats: 0, count: 2, direct: 3 } as const;
const AUDIENCE_WORDS = 4;
const CODECS: Record<MediaCodec, number> = { audio: 0, vp8: 1, vp9: 2, h264: 3, av1: 4 };
const WORD = 0x100000000;

export type LaneTerms = {
  ssrc: number;
  payloadType: number;
  codec: MediaCodec;
  rewritesVp8: boolean;
  /** The number of its newest packet, unwrapped. */
  highest: number;
};

/** What arrived when, and its headers: memory in which native code notes what it takes. */
export type Notes = { came: Float64Array | null; seen: Uint32Array | null };

/** `T` is whose packets they are. */
export class LaneTable<T extends object> {
  readonly memory = new Uint32Array(new ArrayBuffer((AUDIENCES_AT + MAX_LANES * AUDIENCE_WORDS) * 4));
  readonly #highest = new Float64Array(this.memory.buffer);
  readonly #owners: (T | null)[] = new Array<T | null>(MAX_LANES).fill(null);
  readonly #places = new Map<T, number>();
  /** Held on to while their places in memory are known here. */
  #notes: Notes = { came: null, seen: null };

  /** Null: closed meanwhile. */
  owner(lane: number): T | null {
    return this.#owners[lane] ?? null;
  }

  setExtensions(ids: { transportSequence: number; audioLevel: number }): void {
    this.closeAll();
    this.memory[HEAD.transportSequenceId] = ids.transportSequence;
    this.memory[HEAD.audioLevelId] = ids.audioLevel;
  }

  /** Without room for one more lane, its packets stay ordinary. */
  open(owner: T, terms: LaneTerms, notes: Notes): void {
    const lane = this.#places.get(owner) ?? this.#owners.indexOf(null);
    if (lane < 0 || notes.came === null || notes.seen === null) return;
    this.#note(notes);
    const at = HEAD_WORDS + lane * ROW_WORDS;
    this.#highest[at / 2] = terms.highest;
    this.memory[at + ROW.ssrc] = terms.ssrc;
    this.memory[at + ROW.payloadType] = terms.payloadType;
    this.memory[at + ROW.codec] = CODECS[terms.codec];
    this.memory[at + ROW.rewritesVp8] = terms.rewritesVp8 ? 1 : 0;
    this.memory[at + ROW.open] = 1;
    this.#owners[lane] = owner;
    this.#places.set(owner, lane);
  }

  #note(notes: Notes): void {
    const { came, seen } = notes;
    if (came === null || seen === null || (this.#notes.came === came && this.#notes.seen === seen)) return;
    this.#notes = notes;
    for (const [at, memory] of [
      [HEAD.came, came],
      [HEAD.seen, seen],
    ] as const) {
      const address = ptr(memory);
      this.memory[at] = address % WORD;
      this.memory[at + 1] = Math.floor(address / WORD);
    }
  }

  /** As things are now: whose packets go to which seats, and nowhere else. False when that can be said of none. */
  seat(seatsOf: (owner: T) => SeatTable | null): boolean {
    let some = false;
    for (const [owner, lane] of this.#places) {
      const table = seatsOf(owner);
      const at = AUDIENCES_AT + lane * AUDIENCE_WORDS;
      this.memory[at + AUDIENCE.direct] = table ? 1 : 0;
      if (!table) continue;
      const rows = ptr(table.rows);
      this.memory[at + AUDIENCE.seats] = rows % WORD;
      this.memory[at + AUDIENCE.seats + 1] = Math.floor(rows / WORD);
      this.memory[at + AUDIENCE.count] = table.seats.length;
      some = true;
    }
    return some;
  }

  close(owner: T): void {
    const lane = this.#places.get(owner);
    if (lane === undefined) return;
    this.memory[HEAD_WORDS + lane * ROW_WORDS + ROW.open] = 0;
    this.#owners[lane] = null;
    this.#places.delete(owner);
  }

  closeAll(): void {
    for (const owner of [...this.#places.keys()]) this.close(owner);
  }
}
