// Transport-wide feedback from a viewer: read into arrival times, and matched with what was sent when.

import { readUint8, readUint16, readUint24 } from "../rtp/bytes.ts";
import { readStatusChunks, SYMBOL } from "./twcc.ts";

/** No browser reports more at once; a forged count must not cost us memory. */
const MAX_STATUSES = 8_192;
const REFERENCE_MS = 64;
const REFERENCE_BITS = 24;
/** So many packets of a viewer are remembered. */
const HISTORY = 2_048;
const HISTORY_MASK = HISTORY - 1;
const MAX_AGE_MS = 10_000;

/** What a report says of packets that we know, in the order of their numbers: plain columns, as there are thousands a second. */
export class AcknowledgedPackets {
  count = 0;
  /** All of it is media, has arrived, and did so in the order in which it was sent: the first and the last speak for the rest. */
  isPlain = false;
  /** Of what has arrived, from when it was sent to when it arrived, on clocks that have nothing to do with each other. */
  leastDelayMs = Number.POSITIVE_INFINITY;
  bytesInAll = 0;
  readonly sentAtMs = new Float64Array(HISTORY);
  /** On the viewer's clock, from its first report on; NaN: lost. */
  readonly arrivedAtMs = new Float64Array(HISTORY);
  readonly bytes = new Uint16Array(HISTORY);
  /** 0: media; else the probe it belongs to. */
  readonly probe = new Uint8Array(HISTORY);
}

/** Re-usable: one instance per worker is enough. */
export class TransportFeedback {
  baseSequence = 0;
  count = 0;
  feedbackCount = 0;
  /** As written: a count of 64 ms on the viewer's clock, which starts anew every 12.4 days. */
  reference = 0;
  /** By position from `baseSequence`: arrival in ms after the reference; NaN: lost. */
  readonly arrivals = new Float64Array(MAX_STATUSES);
  /** Of the report read last, once it has been matched. */
  readonly acknowledged = new AcknowledgedPackets();
  readonly #symbols = new Uint8Array(MAX_STATUSES);

  /** One whole RTCP packet of format 15 from `start` to `end`, without padding, as `parseRtcp` hands it out. */
  parse(data: Uint8Array, start = 0, end = data.length): boolean {
    if (end - start < 20) return false;
    const count = readUint16(data, start + 14);
    if (count === 0 || count > MAX_STATUSES) return false;
    let at = readStatusChunks(data, start + 20, end, this.#symbols, count);
    if (at < 0) return false;
    let ms = 0;
    for (let i = 0; i < count; i++) {
      const symbol = readUint8(this.#symbols, i);
      const size = symbol === SYMBOL.small ? 1 : symbol === SYMBOL.large ? 2 : 0;
      if (at + size > end) return false;
      if (size === 0) {
        this.arrivals[i] = Number.NaN;
        continue;
      }
      ms += (size === 1 ? readUint8(data, at) : (readUint16(data, at) << 16) >> 16) / 4;
      at += size;
      this.arrivals[i] = ms;
    }
    this.baseSequence = readUint16(data, start + 12);
    this.reference = readUint24(data, start + 16);
    this.count = count;
    this.feedbackCount = readUint8(data, start + 19);
    return true;
  }
}

/**
 * A viewer's clock, counted from its first report: it may be in any part of its circle when we meet, and come around during
 * the call. Reports that overtake each other lie a little before.
 */
class ReferenceClock {
  #last: number | null = null;
  #units = 0;

  /** Milliseconds from the first reference to this one. */
  unwrap(reference: number): number {
    const unused = 32 - REFERENCE_BITS;
    this.#units += ((reference - (this.#last ?? reference)) << unused) >> unused;
    this.#last = reference;
    return this.#units * REFERENCE_MS;
  }
}

/** Hands out transport-wide sequence numbers. */
export type TransportSequence = {
  next(bytes: number, nowMs: number, probe?: number): number;
  /** What it knows, for native code that does the same as `next`: `numbers` in native.h. */
  readonly memory?: Uint32Array<ArrayBuffer>;
};

/** Of an entry: when it was sent, and which number it had, how large it was and which probe it was part of, as one number. */
const ENTRY_DOUBLES = 2;
const PROBE_SHIFT = 0x100000000;
/** Before the entries: the next number, and nothing. */
const HEAD_BYTES = 8;

/** Transport-wide sequence numbers of one connection to a viewer, and when each was sent. */
export class SentPackets implements TransportSequence {
  readonly memory: Uint32Array<ArrayBuffer>;
  /** Side by side, because every packet of every viewer makes an entry. */
  readonly #entries: Float64Array;
  readonly #clock = new ReferenceClock();
  readonly #beforeNext: () => void;

  /** `beforeNext`: copies that were put off get the numbers before. */
  constructor(first = 1, beforeNext: () => void = () => {}) {
    this.#beforeNext = beforeNext;
    const bytes = new ArrayBuffer(HEAD_BYTES + HISTORY * ENTRY_DOUBLES * 8);
    this.memory = new Uint32Array(bytes);
    this.memory[0] = first;
    this.#entries = new Float64Array(bytes, HEAD_BYTES).fill(-1);
  }

  next(bytes: number, nowMs: number, probe = 0): number {
    this.#beforeNext();
    const sequence = this.memory[0] as number;
    this.memory[0] = (sequence + 1) & 0xffff;
    const at = (sequence & HISTORY_MASK) * ENTRY_DOUBLES;
    this.#entries[at] = nowMs;
    this.#entries[at + 1] = sequence + bytes * 0x10000 + probe * PROBE_SHIFT;
    return sequence;
  }

  /** What was sent, as far as it is remembered, oldest first: when, its number, its bytes, its probe. */
  history(): [number, number, number, number][] {
    this.#beforeNext();
    const rows: [number, number, number, number][] = [];
    for (let back = HISTORY; back > 0; back--) {
      const sequence = ((this.memory[0] as number) - back) & 0xffff;
      const at = (sequence & HISTORY_MASK) * ENTRY_DOUBLES;
      const entry = this.#entries[at + 1] as number;
      const what = entry < 0 ? -1 - entry : entry;
      const sentAtMs = this.#entries[at] as number;
      if (sentAtMs < 0 || what % 0x10000 !== sequence) continue;
      rows.push([sentAtMs, sequence, Math.floor(what / 0x10000) & 0xffff, Math.floor(what / PROBE_SHIFT)]);
    }
    return rows;
  }

  /** Of what was sent after that packet, as far as it is remembered. */
  bytesAfter(sequence: number): number {
    this.#beforeNext();
    const count = Math.min(((this.memory[0] as number) - sequence - 1) & 0xffff, HISTORY);
    let bytes = 0;
    for (let n = 1; n <= count; n++) {
      const entry = this.#entries[((sequence + n) & HISTORY_MASK) * ENTRY_DOUBLES + 1] as number;
      bytes += ((entry < 0 ? -1 - entry : entry) >>> 16) & 0xffff;
    }
    return bytes;
  }

  /**
   * Every reported packet we know, in sequence. A packet that arrived is told once; one that was lost may be told again when
   * a later report has it.
   */
  match(
    { acknowledged, arrivals, baseSequence, count, reference }: TransportFeedback,
    nowMs: number,
  ): AcknowledgedPackets {
    const entries = this.#entries;
    const referenceMs = this.#clock.unwrap(reference);
    let known = 0;
    let isPlain = true;
    let lastSentMs = Number.NEGATIVE_INFINITY;
    let lastArrivedMs = Number.NEGATIVE_INFINITY;
    let leastDelayMs = Number.POSITIVE_INFINITY;
    let bytesInAll = 0;
    for (let i = 0; i < count; i++) {
      const sequence = (baseSequence + i) & 0xffff;
      const at = (sequence & HISTORY_MASK) * ENTRY_DOUBLES;
      const sentAtMs = entries[at] as number;
      const what = entries[at + 1] as number;
      if (what < 0 || (what & 0xffff) !== sequence || nowMs - sentAtMs > MAX_AGE_MS) continue;
      const arrivedAtMs = referenceMs + (arrivals[i] as number);
      const bytes = (what >>> 16) & 0xffff;
      const probe = what < PROBE_SHIFT ? 0 : Math.floor(what / PROBE_SHIFT);
      // No comparison holds for what was lost.
      const isInOrder = sentAtMs >= lastSentMs && arrivedAtMs >= lastArrivedMs;
      if (!isInOrder || probe !== 0) isPlain = false;
      if (!Number.isNaN(arrivedAtMs)) entries[at + 1] = -1 - what;
      if (arrivedAtMs - sentAtMs < leastDelayMs) leastDelayMs = arrivedAtMs - sentAtMs;
      bytesInAll += bytes;
      acknowledged.sentAtMs[known] = lastSentMs = sentAtMs;
      acknowledged.arrivedAtMs[known] = lastArrivedMs = arrivedAtMs;
      acknowledged.bytes[known] = bytes;
      acknowledged.probe[known] = probe;
      known++;
    }
    acknowledged.count = known;
    acknowledged.isPlain = isPlain && known > 0;
    acknowledged.leastDelayMs = leastDelayMs;
    acknowledged.bytesInAll = bytesInAll;
    return acknowledged;
  }
}
