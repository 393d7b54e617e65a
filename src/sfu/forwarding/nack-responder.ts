// Answers a viewer's NACKs: remembers which packet of which layer each outgoing sequence number was, and what it
// looked like. Re-sends of one packet are held apart by the round trip: the viewer repeats itself faster than that.

import { Vp8Descriptor } from "../wire/codec/vp8.ts";
import type { PacketRing } from "../wire/rtp/packet-ring.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";
import type { RtxStream } from "../wire/rtp/rtx.ts";
import type { Audience } from "./audience.ts";
import type { FanOutTarget } from "./fan-out-target.ts";
import { describeCopy, type Seat } from "./seat.ts";

const MAX_RESENDS = 6;

/**
 * One line of the processor's cache for each packet: there is one to be written for every viewer, and what they have together
 * does not fit into the cache. Doubles, 32-bit words and bytes of a record, by their place in it.
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

/** Few packets are recorded for one who shares an audience. More than a second of them is never asked for. */
const FIRST_RECORDS = 16;
const MAX_RECORDS = 512;
const KEPT_MS = 1_000;

/** More than enough for a second, however often packets are lost on their way to us. */
const MAX_RUNS = 64;

/**
 * Outgoing numbers from one seat: what each of them was can be told from the seat. `to` is null while it is taken; then
 * `missing` are those that were left free and not sent until then.
 */
interface Run {
  seat: Seat;
  audience: Audience;
  ring: PacketRing;
  from: number;
  to: number | null;
  missing: readonly number[];
}

export interface RtxAnswer {
  stream: RtxStream;
  payloadType: number;
}

export class NackResponder {
  #mask = 0;
  #doubles = new Float64Array(0);
  #words = new Uint32Array(0);
  #bytes = new Uint8Array(0);
  /** Those that packets were taken from, by the number their records have. */
  #rings: PacketRing[] = [];
  /** Newest last. */
  #runs: Run[] = [];
  readonly #vp8 = new Vp8Descriptor();
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

  /** Where its record goes. Only one that may still be asked for is worth more memory. */
  #slotFor({ sequenceNumber, sentAtMs }: FanOutTarget): number {
    for (;;) {
      const slot = sequenceNumber & this.#mask;
      const held = this.#words[slot * WORDS + SEQUENCE] as number;
      if (held === NO_PACKET || held === sequenceNumber || this.capacity === MAX_RECORDS) return slot;
      if (sentAtMs - (this.#doubles[slot * DOUBLES + SENT_AT] as number) > KEPT_MS) return slot;
      this.#grow();
    }
  }

  /** Packets there is room for. */
  get capacity(): number {
    return this.#mask + 1;
  }

  /** From the next packet on the viewer gets what the audience gets: nothing is recorded. */
  seated(seat: Seat, audience: Audience, ring: PacketRing): void {
    this.#ssrc = seat.ssrc;
    this.#runs.push({ seat, audience, ring, from: audience.highest + 1 - seat.sequenceOffset, to: null, missing: [] });
    if (this.#runs.length > MAX_RUNS) this.#runs.shift();
  }

  left(lastOutgoing: number): void {
    const run = this.#runs.at(-1);
    if (!run) return;
    run.to = lastOutgoing;
    run.missing = run.audience.numbers.missingFrom(run.from + run.seat.sequenceOffset);
    if (run.to < run.from) this.#runs.pop();
  }

  /** Writes the record that a packet of a run has none of, unless it was asked for before. */
  #recall(sequenceNumber: number, nowMs: number, view: RtpView, target: FanOutTarget): void {
    for (const { seat, audience, ring, from, to, missing } of this.#runs) {
      const slot = sequenceNumber & this.#mask;
      const last = to ?? audience.highest - seat.sequenceOffset;
      const outgoing = last - ((last - sequenceNumber) & 0xffff);
      if (outgoing < from) continue;
      const extended = outgoing + seat.sequenceOffset;
      if (to === null ? audience.numbers.isExpected(extended) : missing.includes(extended)) continue;
      if (this.#holds(slot, sequenceNumber) && this.#doubles[slot * DOUBLES + EXTENDED] === extended) return;
      if (!ring.read(extended, nowMs, view)) continue;
      this.#vp8.parse(view.data, view.payloadOffset, seat.vp8Offsets ? view.payloadLength : 0);
      const packet = { view, extended, vp8: this.#vp8, layer: 0, keyframe: false };
      describeCopy(seat, packet, ring.arrivedAtMs(extended), target);
      this.record(target, ring, extended);
    }
  }

  /** Call with every packet that was forwarded by itself, once `target` is complete. */
  record(target: FanOutTarget, ring: PacketRing, extended: number): void {
    const slot = this.#slotFor(target);
    const word = slot * WORDS;
    const double = slot * DOUBLES;
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
    const at = slot * RECORD_BYTES + PREFIX_AT;
    for (let i = 0; i < target.prefixLength; i++) this.#bytes[at + i] = target.prefix[i] as number;
  }

  #numberOf(ring: PacketRing): number {
    for (let i = 0; i < this.#rings.length; i++) if (this.#rings[i] === ring) return i;
    return this.#rings.push(ring) - 1;
  }

  /**
   * Puts the packet into `view` and its header into `target`; false when it was never sent, is gone, or was sent
   * again less than a round trip ago. Over `rtx` the caller gives `target` a new transport sequence and time;
   * without, every byte must be what it was, and `target` says so.
   */
  answer(
    sequenceNumber: number,
    nowMs: number,
    rttMs: number,
    view: RtpView,
    target: FanOutTarget,
    rtx?: RtxAnswer,
  ): boolean {
    this.#recall(sequenceNumber, nowMs, view, target);
    const slot = sequenceNumber & this.#mask;
    const resends = this.#words[slot * WORDS + RESENDS] as number;
    if (!this.#holds(slot, sequenceNumber) || resends >= MAX_RESENDS) return this.#refuse();
    if (nowMs - (this.#doubles[slot * DOUBLES + RESENT_AT] as number) < rttMs * 0.8) return false;
    if (!this.#read(slot, nowMs, view)) return this.#refuse();
    this.#words[slot * WORDS + RESENDS] = resends + 1;
    this.#doubles[slot * DOUBLES + RESENT_AT] = nowMs;
    this.#restore(slot, target);
    if (rtx !== undefined) this.#overRtx(sequenceNumber, target, rtx);
    this.resent += 1;
    return true;
  }

  /** A packet once more, over RTX: the best padding there is for a probe. It is no answer, and counts as none. */
  repeat(sequenceNumber: number, nowMs: number, view: RtpView, target: FanOutTarget, rtx: RtxAnswer): boolean {
    this.#recall(sequenceNumber, nowMs, view, target);
    const slot = sequenceNumber & this.#mask;
    if (!this.#holds(slot, sequenceNumber) || !this.#read(slot, nowMs, view)) return false;
    this.#restore(slot, target);
    this.#overRtx(sequenceNumber, target, rtx);
    return true;
  }

  #holds(slot: number, sequenceNumber: number): boolean {
    return this.#words[slot * WORDS + SEQUENCE] === sequenceNumber;
  }

  #read(slot: number, nowMs: number, view: RtpView): boolean {
    const ring = this.#rings[this.#words[slot * WORDS + RING] as number];
    return ring?.read(this.#doubles[slot * DOUBLES + EXTENDED] as number, nowMs, view) ?? false;
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

  #restore(slot: number, target: FanOutTarget): void {
    const word = slot * WORDS;
    const header = this.#words[word + HEADER] as number;
    target.ssrc = this.#ssrc;
    target.sequenceNumber = this.#words[word + SEQUENCE] as number;
    target.originalSequenceNumber = -1;
    target.timestamp = this.#words[word + TIMESTAMP] as number;
    target.payloadType = (header >>> 9) & 0x7f;
    target.marker = (header & 0x100) !== 0;
    target.transportSequence = header >>> 16;
    target.sentAtMs = this.#doubles[slot * DOUBLES + SENT_AT] as number;
    target.prefixLength = header & 0xff;
    const at = slot * RECORD_BYTES + PREFIX_AT;
    for (let i = 0; i < target.prefixLength; i++) target.prefix[i] = this.#bytes[at + i] as number;
  }

  /** Another publisher took the place: what was sent before is not sent again. */
  clear(): void {
    this.#rings = [];
    this.#runs = [];
    this.#forgetAll();
  }

  #forgetAll(): void {
    for (let at = SEQUENCE; at < this.#words.length; at += WORDS) this.#words[at] = NO_PACKET;
  }
}
