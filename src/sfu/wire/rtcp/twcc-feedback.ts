// Transport-wide feedback from a subscriber: parsed into arrival times, and matched with the packets sent.

import { readUint8, readUint16, readUint24 } from "../rtp/bytes.ts";
import { sequenceDiff } from "../rtp/sequence.ts";
import { msOf, ticksOf } from "./ticks.ts";
import { readStatusChunks, SYMBOL } from "./twcc.ts";

/** No browser reports on more packets in one message; a forged count must not claim memory. */
const MAX_STATUSES = 8_192;
const REFERENCE_MS = 64;
const REFERENCE_BITS = 24;
/** How many sent packets are remembered per subscriber. */
const HISTORY = 2_048;
const HISTORY_MASK = HISTORY - 1;
const MAX_AGE_MS = 10_000;

/** The reported packets that are known, by number. They are columns because there are thousands a second. */
export class AcknowledgedPackets {
  count = 0;
  readonly sentAtMs = new Float64Array(HISTORY);
  /** On the subscriber's clock since its first report; NaN when lost. */
  readonly arrivedAtMs = new Float64Array(HISTORY);
  readonly bytes = new Uint16Array(HISTORY);
  /** The id of the probe that a packet belongs to; 0 for media. */
  readonly probe = new Uint8Array(HISTORY);
}

/** Instances are reused: one per worker is enough. */
export class TransportFeedback {
  baseSequence = 0;
  count = 0;
  feedbackCount = 0;
  /** The reference time as it was written: units of 64 ms on the subscriber's clock, wrapping every 12.4 days. */
  reference = 0;
  /** Arrival in ms after the reference, by position from `baseSequence`; NaN when lost. */
  readonly arrivals = new Float64Array(MAX_STATUSES);
  /** The packets of the last report, once it has been matched. */
  readonly acknowledged = new AcknowledgedPackets();
  readonly #symbols = new Uint8Array(MAX_STATUSES);

  /** Parses the RTCP packet of format 15 from `start` to `end`, without padding, as `parseRtcp` returns it. */
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

/** A subscriber's clock since its first report: it may wrap during the call, and reordered reports go back a little. */
class ReferenceClock {
  #last: number | null = null;
  #units = 0;

  /** Returns the milliseconds from the first reference to this one. */
  unwrap(reference: number): number {
    const unused = 32 - REFERENCE_BITS;
    this.#units += ((reference - (this.#last ?? reference)) << unused) >> unused;
    this.#last = reference;
    return this.#units * REFERENCE_MS;
  }
}

/** Hands out transport-wide sequence numbers. */
export type TransportSequence = {
  /** `outgoing` is the RTP sequence number, by which `find` recognises a packet. */
  next(bytes: number, nowMs: number, probe?: number, outgoing?: number): number;
  find(sentAtMs: number, bytes: number, outgoing: number): number;
  sentAgain(sequence: number): void;
  /** The state, for native code that does the same as `next`: `transport_numbers` in fast-path.h. */
  readonly memory?: Uint32Array<ArrayBuffer>;
};

/**
 * An entry is two words: the ticks at which the packet was sent; and its size (12 bits), the bits of its number that its position
 * does not tell (5), whether it belongs to a probe (1), the probe's id or the low bits of the RTP number (13), and whether the
 * entry is settled (1), because the packet was reported or sent again. A size of 0 marks an empty entry.
 */
const ENTRY_WORDS = 2;
const MAX_BYTES = 0xfff;
const CYCLE_SHIFT = 12;
const HISTORY_BITS = Math.log2(HISTORY);
const NUMBER_MASK = 0x1ffff;
const PROBE = 1 << 17;
const DETAIL_SHIFT = 18;
const DETAIL_MASK = 0x1fff;
const SETTLED = 1 << 31;

/** The size and the number bits of an entry, without the flags. */
function isOf(entry: number, sequence: number): boolean {
  return (entry & MAX_BYTES) !== 0 && (entry & NUMBER_MASK) >> CYCLE_SHIFT === sequence >> HISTORY_BITS;
}

function probeOf(entry: number): number {
  return (entry & PROBE) === 0 ? 0 : (entry >>> DETAIL_SHIFT) & DETAIL_MASK;
}

/** Lost packets are requested at once and reported within a tenth of a second; a client that never reports must not claim memory. */
const MAX_UNREPORTED = 64;
/** Packets of one burst may be recorded in another order than they were sent. */
const DISORDER_TICKS = ticksOf(50);
/** The next number and padding, before the entries. */
const HEAD_WORDS = 2;

/** The transport-wide sequence numbers of one connection to a subscriber, and when each was sent. */
export class SentPackets implements TransportSequence {
  /** Allocated with the first packet, because many participants receive nothing. */
  #memory: Uint32Array<ArrayBuffer> | null = null;
  readonly #first: number;
  /** Packed, because every packet of every subscriber makes an entry. */
  #entries = new Int32Array();
  readonly #clock = new ReferenceClock();
  /** The newest reported number, and later numbers that were sent again before their report, which count as lost. */
  #reportedUpTo: number;
  #resent: number[] = [];

  constructor(first = 1) {
    this.#first = first;
    this.#reportedUpTo = (first - 1) & 0xffff;
  }

  get memory(): Uint32Array<ArrayBuffer> {
    return this.#memory ?? this.#allocate();
  }

  #allocate(): Uint32Array<ArrayBuffer> {
    this.#memory = new Uint32Array(new ArrayBuffer((HEAD_WORDS + HISTORY * ENTRY_WORDS) * 4));
    this.#entries = new Int32Array(this.#memory.buffer, HEAD_WORDS * 4);
    this.#memory[0] = this.#first;
    return this.#memory;
  }

  next(bytes: number, nowMs: number, probe = 0, outgoing = 0): number {
    const { memory } = this;
    const sequence = memory[0] as number;
    memory[0] = (sequence + 1) & 0xffff;
    const at = (sequence & HISTORY_MASK) * ENTRY_WORDS;
    const detail = probe === 0 ? outgoing & DETAIL_MASK : probe;
    this.#entries[at] = ticksOf(nowMs);
    this.#entries[at + 1] =
      Math.min(bytes, MAX_BYTES) |
      ((sequence >> HISTORY_BITS) << CYCLE_SHIFT) |
      (probe === 0 ? 0 : PROBE) |
      (detail << DETAIL_SHIFT);
    return sequence;
  }

  /**
   * The number of the packet that was sent then, with that size and RTP number. Returns −1 when none is remembered, or when several
   * could be it.
   */
  find(sentAtMs: number, bytes: number, outgoing: number): number {
    const sentAt = ticksOf(sentAtMs);
    const wanted = bytes | ((outgoing & DETAIL_MASK) << DETAIL_SHIFT);
    let found = -1;
    for (let back = 1; back <= HISTORY; back++) {
      const sequence = ((this.memory[0] as number) - back) & 0xffff;
      const at = (sequence & HISTORY_MASK) * ENTRY_WORDS;
      const entry = this.#entries[at + 1] as number;
      if (!isOf(entry, sequence)) break;
      const earlier = (sentAt - (this.#entries[at] as number)) | 0;
      if (earlier > DISORDER_TICKS) break;
      const isWanted = (entry & ~(SETTLED | (NUMBER_MASK & ~MAX_BYTES))) === wanted;
      if (earlier !== 0 || !isWanted) continue;
      if (found >= 0) return -1;
      found = sequence;
    }
    return found;
  }

  /** The packet is sent again under its number. It counts as lost, and its arrival says nothing about the path. */
  sentAgain(sequence: number): void {
    const at = (sequence & HISTORY_MASK) * ENTRY_WORDS + 1;
    const entry = this.#entries[at] as number;
    if (entry < 0 || !isOf(entry, sequence)) return;
    this.#entries[at] = entry | SETTLED;
    const isUnreported = sequenceDiff(sequence, this.#reportedUpTo) > 0;
    if (isUnreported && this.#resent.length < MAX_UNREPORTED) this.#resent.push(sequence);
  }

  /** The remembered packets, oldest first: time, number, bytes, probe. */
  history(nowMs: number): [number, number, number, number][] {
    const rows: [number, number, number, number][] = [];
    if (this.#memory === null) return rows;
    for (let back = HISTORY; back > 0; back--) {
      const sequence = ((this.memory[0] as number) - back) & 0xffff;
      const at = (sequence & HISTORY_MASK) * ENTRY_WORDS;
      const entry = this.#entries[at + 1] as number;
      if (!isOf(entry, sequence)) continue;
      rows.push([msOf(this.#entries[at] as number, nowMs), sequence, entry & MAX_BYTES, probeOf(entry)]);
    }
    return rows;
  }

  /** The bytes of remembered packets that were sent after this one. */
  bytesAfter(sequence: number): number {
    const count = Math.min(((this.memory[0] as number) - sequence - 1) & 0xffff, HISTORY);
    let bytes = 0;
    for (let n = 1; n <= count; n++)
      bytes += (this.#entries[((sequence + n) & HISTORY_MASK) * ENTRY_WORDS + 1] as number) & MAX_BYTES;
    return bytes;
  }

  /**
   * Returns every known packet of the report, in sequence. An arrived packet is returned once; a lost one again if it arrives
   * later.
   */
  match(
    { acknowledged, arrivals, baseSequence, count, reference }: TransportFeedback,
    nowMs: number,
  ): AcknowledgedPackets {
    acknowledged.count = 0;
    if (this.#memory === null) return acknowledged;
    const entries = this.#entries;
    const referenceMs = this.#clock.unwrap(reference);
    let known = 0;
    for (let i = 0; i < count; i++) {
      const sequence = (baseSequence + i) & 0xffff;
      const at = (sequence & HISTORY_MASK) * ENTRY_WORDS;
      const entry = entries[at + 1] as number;
      const isResent = entry < 0 && this.#resent.includes(sequence);
      if ((entry < 0 && !isResent) || !isOf(entry, sequence)) continue;
      const sentAtMs = msOf(entries[at] as number, nowMs);
      if (nowMs - sentAtMs > MAX_AGE_MS) continue;
      const arrivedAtMs = isResent ? Number.NaN : referenceMs + (arrivals[i] as number);
      if (!Number.isNaN(arrivedAtMs)) entries[at + 1] = entry | SETTLED;
      acknowledged.sentAtMs[known] = sentAtMs;
      acknowledged.arrivedAtMs[known] = arrivedAtMs;
      acknowledged.bytes[known] = entry & MAX_BYTES;
      acknowledged.probe[known] = probeOf(entry);
      known++;
    }
    acknowledged.count = known;
    const last = (baseSequence + count - 1) & 0xffff;
    if (sequenceDiff(last, this.#reportedUpTo) > 0) this.#reportedUpTo = last;
    if (this.#resent.length > 0)
      this.#resent = this.#resent.filter((sequence) => sequenceDiff(sequence, this.#reportedUpTo) > 0);
    return acknowledged;
  }
}
