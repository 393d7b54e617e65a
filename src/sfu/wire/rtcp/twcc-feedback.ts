// Transport-wide feedback from a subscriber: parsed into arrival times, and matched with the packets sent.

import { readUint8, readUint16, readUint24 } from "../rtp/bytes.ts";
import { sequenceDiff } from "../rtp/sequence.ts";
import { readStatusChunks, SYMBOL } from "./twcc.ts";

/** No browser reports more at once; a forged count must not claim memory. */
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
  /** The reference time as written: units of 64 ms on the subscriber's clock, which wraps every 12.4 days. */
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

/** An entry is the time of sending, and the packet's number, size, probe and low bits of its RTP number packed into one number. */
const ENTRY_DOUBLES = 2;
const PROBE_SHIFT = 0x100000000;
const OUTGOING_SHIFT = 0x100 * PROBE_SHIFT;
const OUTGOING_MASK = 0x1fff;
/** Lost packets are requested at once and reported within a tenth of a second; a client that never reports must not claim memory. */
const MAX_UNREPORTED = 64;
/** Packets of one burst may be noted in another order than they were sent. */
const DISORDER_MS = 50;
/** The next number, and padding, precede the entries. */
const HEAD_BYTES = 8;

/** The transport-wide sequence numbers of one connection to a subscriber, and when each was sent. */
export class SentPackets implements TransportSequence {
  /** Allocated with the first packet, because many participants receive nothing. */
  #memory: Uint32Array<ArrayBuffer> | null = null;
  readonly #first: number;
  /** Packed, because every packet of every subscriber makes an entry. */
  #entries = new Float64Array();
  readonly #clock = new ReferenceClock();
  /** The newest number that was reported, and later ones that were sent again before their report: they are lost. */
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
    const bytes = new ArrayBuffer(HEAD_BYTES + HISTORY * ENTRY_DOUBLES * 8);
    this.#entries = new Float64Array(bytes, HEAD_BYTES).fill(-1);
    this.#memory = new Uint32Array(bytes);
    this.#memory[0] = this.#first;
    return this.#memory;
  }

  next(bytes: number, nowMs: number, probe = 0, outgoing = 0): number {
    const { memory } = this;
    const sequence = memory[0] as number;
    memory[0] = (sequence + 1) & 0xffff;
    const at = (sequence & HISTORY_MASK) * ENTRY_DOUBLES;
    this.#entries[at] = nowMs;
    this.#entries[at + 1] =
      sequence + bytes * 0x10000 + probe * PROBE_SHIFT + (outgoing & OUTGOING_MASK) * OUTGOING_SHIFT;
    return sequence;
  }

  /**
   * The number of the packet that was sent then, with that size and RTP number. Returns −1 when none is remembered, or when several
   * could be it.
   */
  find(sentAtMs: number, bytes: number, outgoing: number): number {
    const wanted = (outgoing & OUTGOING_MASK) * 0x100 * 0x10000 + bytes;
    let found = -1;
    for (let back = 1; back <= HISTORY; back++) {
      const sequence = ((this.memory[0] as number) - back) & 0xffff;
      const at = (sequence & HISTORY_MASK) * ENTRY_DOUBLES;
      const noted = this.#entries[at] as number;
      if (noted < sentAtMs - DISORDER_MS) break;
      const entry = this.#entries[at + 1] as number;
      const packed = entry < 0 ? -1 - entry : entry;
      if (noted !== sentAtMs || packed % 0x10000 !== sequence || Math.floor(packed / 0x10000) !== wanted) continue;
      if (found >= 0) return -1;
      found = sequence;
    }
    return found;
  }

  /** The packet is sent again under its number: it counts as lost, and its arrival tells nothing of the path. */
  sentAgain(sequence: number): void {
    const at = (sequence & HISTORY_MASK) * ENTRY_DOUBLES + 1;
    const packed = this.#entries[at] as number;
    if (packed < 0 || packed % 0x10000 !== sequence) return;
    this.#entries[at] = -1 - packed;
    const isUnreported = sequenceDiff(sequence, this.#reportedUpTo) > 0;
    if (isUnreported && this.#resent.length < MAX_UNREPORTED) this.#resent.push(sequence);
  }

  /** The remembered packets, oldest first: time, number, bytes, probe. */
  history(): [number, number, number, number][] {
    const rows: [number, number, number, number][] = [];
    if (this.#memory === null) return rows;
    for (let back = HISTORY; back > 0; back--) {
      const sequence = ((this.memory[0] as number) - back) & 0xffff;
      const at = (sequence & HISTORY_MASK) * ENTRY_DOUBLES;
      const entry = this.#entries[at + 1] as number;
      const packed = entry < 0 ? -1 - entry : entry;
      const sentAtMs = this.#entries[at] as number;
      if (sentAtMs < 0 || packed % 0x10000 !== sequence) continue;
      rows.push([sentAtMs, sequence, Math.floor(packed / 0x10000) & 0xffff, Math.floor(packed / PROBE_SHIFT) & 0xff]);
    }
    return rows;
  }

  /** The bytes of remembered packets that were sent after this one. */
  bytesAfter(sequence: number): number {
    const count = Math.min(((this.memory[0] as number) - sequence - 1) & 0xffff, HISTORY);
    let bytes = 0;
    for (let n = 1; n <= count; n++) {
      const entry = this.#entries[((sequence + n) & HISTORY_MASK) * ENTRY_DOUBLES + 1] as number;
      bytes += ((entry < 0 ? -1 - entry : entry) >>> 16) & 0xffff;
    }
    return bytes;
  }

  /** Returns every known reported packet in sequence. An arrived packet is returned once; a lost one again if it arrives. */
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
      const at = (sequence & HISTORY_MASK) * ENTRY_DOUBLES;
      const sentAtMs = entries[at] as number;
      const entry = entries[at + 1] as number;
      const isResent = entry < 0 && this.#resent.includes(sequence);
      const packed = isResent ? -1 - entry : entry;
      if (packed < 0 || (packed & 0xffff) !== sequence || nowMs - sentAtMs > MAX_AGE_MS) continue;
      const arrivedAtMs = isResent ? Number.NaN : referenceMs + (arrivals[i] as number);
      if (!Number.isNaN(arrivedAtMs)) entries[at + 1] = -1 - packed;
      acknowledged.sentAtMs[known] = sentAtMs;
      acknowledged.arrivedAtMs[known] = arrivedAtMs;
      acknowledged.bytes[known] = (packed >>> 16) & 0xffff;
      acknowledged.probe[known] = packed < PROBE_SHIFT ? 0 : Math.floor(packed / PROBE_SHIFT) & 0xff;
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
