/**
 * The streams of one publisher that native code (streams.c) forwards without TypeScript: packets in order, to subscribers that are all
 * members of a fan-out group. Each stream is a row of 32-bit words in memory that both read. Before TypeScript changes anything about a
 * stream it closes the stream's row, and it opens the row again with the next packet that it handles itself.
 */
import { ptr } from "bun:ffi";
import type { MediaCodec } from "../wire/codec/keyframe.ts";
import { setPointer } from "./native-engine.ts";
import type { PacketRun, ReceiveBatch } from "./receive-batch.ts";
import type { SlotTable } from "./subscriber-slot.ts";

/** Positions in the head and in a row, in words of 32 bits: `publisher` and `fast_stream` in fast-path.h. */
const HEAD = { arrived: 0, flight: 2, transportSequenceId: 4, audioLevelId: 5, rows: 6 } as const;
const HEAD_WORDS = 8;
const ROW = { highest: 0, open: 2, ssrc: 3, payloadType: 4, codec: 5, rewritesVp8: 6 } as const;
/** The `fan_out_group` of a stream follows its eight words. */
const GROUP = { slots: 8, count: 10, isForwardable: 11 } as const;
const ROW_WORDS = 12;
/** Most participants publish nothing, or a microphone and a camera in three layers. */
const FIRST_ROWS = 4;
const MAX_STREAMS = 1_024;
const CODECS: Record<MediaCodec, number> = { audio: 0, vp8: 1, vp9: 2, h264: 3, av1: 4 };

export type FastStreamTerms = {
  ssrc: number;
  payloadType: number;
  codec: MediaCodec;
  rewritesVp8: boolean;
  /** The sequence number of its newest packet, unwrapped. */
  highest: number;
};

/** The memory in which native code records arrivals and headers. Null before there is any. */
type PacketRecords = { arrived: Float64Array | null; flight: Uint32Array | null };

/** The streams of a publisher, for the receive loop. */
export interface PublisherStreams {
  readonly table: StreamTable<object>;
  /** Calls `StreamTable.link`. */
  link(): boolean;
  /** Accounts for packets that native code has forwarded. */
  receiveRun(run: PacketRun, batch: ReceiveBatch, nowMs: number): void;
}

/** `T` is the owner of a stream. */
export class StreamTable<T extends object> {
  /** Replaced when the table grows. */
  memory = memoryFor(FIRST_ROWS);
  #highest = new Float64Array(this.memory.buffer);
  readonly #owners: (T | null)[] = new Array<T | null>(FIRST_ROWS).fill(null);
  readonly #rows = new Map<T, number>();
  /** Keeps the buffers alive whose addresses are in the memory. */
  #records: PacketRecords = { arrived: null, flight: null };

  /** Null when the stream was closed meanwhile. */
  owner(stream: number): T | null {
    return this.#owners[stream] ?? null;
  }

  setExtensions(ids: { transportSequence: number; audioLevel: number }): void {
    this.closeAll();
    this.memory[HEAD.transportSequenceId] = ids.transportSequence;
    this.memory[HEAD.audioLevelId] = ids.audioLevel;
  }

  /** If no row is free, TypeScript continues to handle all packets of the stream. */
  open(owner: T, terms: FastStreamTerms, records: PacketRecords): void {
    if (records.arrived === null || records.flight === null) return;
    const row = this.#rows.get(owner) ?? this.#freeRow();
    if (row < 0) return;
    if (this.#records.arrived !== records.arrived || this.#records.flight !== records.flight) {
      this.#records = records;
      setPointer(this.memory, HEAD.arrived, ptr(records.arrived));
      setPointer(this.memory, HEAD.flight, ptr(records.flight));
    }
    const at = HEAD_WORDS + row * ROW_WORDS;
    this.#highest[at / 2] = terms.highest;
    this.memory[at + ROW.ssrc] = terms.ssrc;
    this.memory[at + ROW.payloadType] = terms.payloadType;
    this.memory[at + ROW.codec] = CODECS[terms.codec];
    this.memory[at + ROW.rewritesVp8] = terms.rewritesVp8 ? 1 : 0;
    this.memory[at + ROW.open] = 1;
    this.#owners[row] = owner;
    this.#rows.set(owner, row);
  }

  #freeRow(): number {
    const free = this.#owners.indexOf(null);
    const rows = this.#owners.length;
    if (free >= 0 || rows === MAX_STREAMS) return free;
    const grown = memoryFor(rows * 2);
    grown.set(this.memory.subarray(0, HEAD.rows));
    grown.set(this.memory.subarray(HEAD_WORDS), HEAD_WORDS);
    this.memory = grown;
    this.#highest = new Float64Array(grown.buffer);
    for (let i = 0; i < rows; i++) this.#owners.push(null);
    return rows;
  }

  /**
   * Stores the current subscribers of every open stream. `slotsOf` returns null for a stream that TypeScript has to handle. Returns
   * whether native code can forward any stream.
   */
  link(slotsOf: (owner: T) => SlotTable | null): boolean {
    let isAnyForwardable = false;
    for (const [owner, row] of this.#rows) {
      const table = slotsOf(owner);
      const at = HEAD_WORDS + row * ROW_WORDS;
      this.memory[at + GROUP.isForwardable] = table ? 1 : 0;
      if (!table) continue;
      setPointer(this.memory, at + GROUP.slots, ptr(table.rows));
      this.memory[at + GROUP.count] = table.slots.length;
      isAnyForwardable = true;
    }
    return isAnyForwardable;
  }

  close(owner: T): void {
    const row = this.#rows.get(owner);
    if (row === undefined) return;
    this.memory[HEAD_WORDS + row * ROW_WORDS + ROW.open] = 0;
    this.#owners[row] = null;
    this.#rows.delete(owner);
  }

  closeAll(): void {
    for (const owner of [...this.#rows.keys()]) this.close(owner);
  }
}

function memoryFor(rows: number): Uint32Array<ArrayBuffer> {
  const memory = new Uint32Array(new ArrayBuffer((HEAD_WORDS + rows * ROW_WORDS) * 4));
  memory[HEAD.rows] = rows;
  return memory;
}
