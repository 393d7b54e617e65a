/**
 * Answers the NACKs of a subscriber: remembers which packet of which layer each outgoing sequence number was, and its header. A packet
 * is sent again at most once per round trip, because subscribers repeat their NACKs faster than that.
 */
import type { PacketRing } from "../wire/rtp/packet-ring.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";
import type { RtxStream } from "../wire/rtp/rtx.ts";
import type { FanOutTarget } from "./fan-out-target.ts";

const MAX_RESENDS = 6;

/**
 * Each packet has one cache line, because a record is written for every subscriber, and all records together do not fit the cache. The
 * constants are positions of doubles, 32-bit words and bytes in a record.
 */
const RECORD_BYTES = 64;
const DOUBLES = RECORD_BYTES / 8;
const WORDS = RECORD_BYTES / 4;
const EXTENDED = 0;
const SENT_AT = 1;
const RESENT_AT = 2;
const SEQUENCE = 6;
const TIMESTAMP = 7;
/** Transport-wide sequence number, then 7 bits of payload type, the marker, and the length of the prefix. */
const HEADER = 8;
const RESENDS = 9;
const RING = 10;
const PREFIX_AT = 44;
const NO_PACKET = 0xffffffff;

/** Most subscribers have few records. Packets older than a second are not sent again. */
const FIRST_RECORDS = 16;
const MAX_RECORDS = 512;
const KEPT_MS = 1_000;

interface RtxAnswer {
  stream: RtxStream;
  payloadType: number;
}

export class NackResponder {
  #mask = 0;
  #doubles = new Float64Array(0);
  #words = new Uint32Array(0);
  #bytes = new Uint8Array(0);
  /** The rings of the packets, by the number in their records. */
  #rings: PacketRing[] = [];
  #ssrc = 0;
  resent = 0;
  unanswered = 0;

  constructor() {
    this.#make(FIRST_RECORDS);
  }

  #make(records: number): void {
    const memory = new ArrayBuffer(records * RECORD_BYTES);
    this.#mask = records - 1;
    this.#doubles = new Float64Array(memory);
    this.#words = new Uint32Array(memory);
    this.#bytes = new Uint8Array(memory);
    this.#forgetAll();
  }

  #grow(): void {
    const before = this.#words;
    this.#make(this.capacity * 2);
    for (let at = 0; at < before.length; at += WORDS) {
      const sequenceNumber = before[at + SEQUENCE] as number;
      if (sequenceNumber === NO_PACKET) continue;
      this.#words.set(before.subarray(at, at + WORDS), (sequenceNumber & this.#mask) * WORDS);
    }
  }

  /** Returns the position of the record. The memory grows only for records that a NACK may still ask for. */
  #indexFor({ sequenceNumber, sentAtMs }: FanOutTarget): number {
    for (;;) {
      const index = sequenceNumber & this.#mask;
      const held = this.#words[index * WORDS + SEQUENCE] as number;
      if (held === NO_PACKET || held === sequenceNumber || this.capacity === MAX_RECORDS) return index;
      if (sentAtMs - (this.#doubles[index * DOUBLES + SENT_AT] as number) > KEPT_MS) return index;
      this.#grow();
    }
  }

  /** The number of packets for which there is room. */
  get capacity(): number {
    return this.#mask + 1;
  }

  /** Called with every forwarded packet, once `target` is complete. */
  record(target: FanOutTarget, ring: PacketRing, extended: number): void {
    const index = this.#indexFor(target);
    const word = index * WORDS;
    const double = index * DOUBLES;
    this.#ssrc = target.ssrc;
    this.#doubles[double + EXTENDED] = extended;
    this.#doubles[double + SENT_AT] = target.sentAtMs;
    this.#doubles[double + RESENT_AT] = Number.NEGATIVE_INFINITY;
    this.#words[word + SEQUENCE] = target.sequenceNumber;
    this.#words[word + TIMESTAMP] = target.timestamp;
    this.#words[word + HEADER] =
      (target.transportSequence << 16) | (target.payloadType << 9) | (target.marker ? 0x100 : 0) | target.prefixLength;
    this.#words[word + RESENDS] = 0;
    this.#words[word + RING] = this.#numberOf(ring);
    const at = index * RECORD_BYTES + PREFIX_AT;
    for (let i = 0; i < target.prefixLength; i++) this.#bytes[at + i] = target.prefix[i] as number;
  }

  #numberOf(ring: PacketRing): number {
    for (let i = 0; i < this.#rings.length; i++) if (this.#rings[i] === ring) return i;
    return this.#rings.push(ring) - 1;
  }

  /**
   * Puts the packet into `view` and its header into `target`. Returns false when it was never sent, is gone, or was sent again less
   * than a round trip ago. With `rtx` the caller gives `target` a new transport sequence and time; without, every byte is repeated.
   */
  answer(
    sequenceNumber: number,
    nowMs: number,
    rttMs: number,
    view: RtpView,
    target: FanOutTarget,
    rtx?: RtxAnswer,
  ): boolean {
    this.recall(sequenceNumber, nowMs, view, target, rtx === undefined);
    const index = sequenceNumber & this.#mask;
    const resends = this.#words[index * WORDS + RESENDS] as number;
    if (!this.#holds(index, sequenceNumber) || resends >= MAX_RESENDS) return this.#refuse();
    if (nowMs - (this.#doubles[index * DOUBLES + RESENT_AT] as number) < rttMs * 0.8) return false;
    if (!this.#read(index, nowMs, view)) return this.#refuse();
    this.#words[index * WORDS + RESENDS] = resends + 1;
    this.#doubles[index * DOUBLES + RESENT_AT] = nowMs;
    this.#restore(index, target);
    if (rtx !== undefined) this.#overRtx(sequenceNumber, target, rtx);
    this.resent += 1;
    return true;
  }

  /** Repeats a packet over RTX as padding of a probe. It does not count as an answer. */
  repeat(sequenceNumber: number, nowMs: number, view: RtpView, target: FanOutTarget, rtx: RtxAnswer): boolean {
    this.recall(sequenceNumber, nowMs, view, target, false);
    const index = sequenceNumber & this.#mask;
    if (!this.#holds(index, sequenceNumber) || !this.#read(index, nowMs, view)) return false;
    this.#restore(index, target);
    this.#overRtx(sequenceNumber, target, rtx);
    return true;
  }

  /** A subclass restores the record of a packet that was sent without one, with the whole header if the bytes are repeated. */
  protected recall(
    _sequenceNumber: number,
    _nowMs: number,
    _view: RtpView,
    _target: FanOutTarget,
    _repeatsBytes: boolean,
  ): void {}

  protected hasRecord(sequenceNumber: number, extended: number): boolean {
    const index = sequenceNumber & this.#mask;
    return this.#holds(index, sequenceNumber) && this.#doubles[index * DOUBLES + EXTENDED] === extended;
  }

  #holds(index: number, sequenceNumber: number): boolean {
    return this.#words[index * WORDS + SEQUENCE] === sequenceNumber;
  }

  #read(index: number, nowMs: number, view: RtpView): boolean {
    const ring = this.#rings[this.#words[index * WORDS + RING] as number];
    return ring?.read(this.#doubles[index * DOUBLES + EXTENDED] as number, nowMs, view) ?? false;
  }

  #overRtx(sequenceNumber: number, target: FanOutTarget, rtx: RtxAnswer): void {
    target.originalSequenceNumber = sequenceNumber;
    target.ssrc = rtx.stream.ssrc;
    target.payloadType = rtx.payloadType;
    target.sequenceNumber = rtx.stream.nextSequence();
  }

  #refuse(): false {
    this.unanswered += 1;
    return false;
  }

  #restore(index: number, target: FanOutTarget): void {
    const word = index * WORDS;
    const header = this.#words[word + HEADER] as number;
    target.ssrc = this.#ssrc;
    target.sequenceNumber = this.#words[word + SEQUENCE] as number;
    target.originalSequenceNumber = -1;
    target.timestamp = this.#words[word + TIMESTAMP] as number;
    target.payloadType = (header >>> 9) & 0x7f;
    target.marker = (header & 0x100) !== 0;
    target.transportSequence = header >>> 16;
    target.sentAtMs = this.#doubles[index * DOUBLES + SENT_AT] as number;
    target.prefixLength = header & 0xff;
    const at = index * RECORD_BYTES + PREFIX_AT;
    for (let i = 0; i < target.prefixLength; i++) target.prefix[i] = this.#bytes[at + i] as number;
  }

  /** Another track takes the place of this one, so earlier packets are not sent again. */
  clear(): void {
    this.#rings = [];
    this.#forgetAll();
  }

  #forgetAll(): void {
    for (let at = SEQUENCE; at < this.#words.length; at += WORDS) this.#words[at] = NO_PACKET;
  }
}
