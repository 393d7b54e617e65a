// The viewers of one layer who get all of its packets. What changes with every packet changes for all of them alike: it is
// kept here once, and each takes it over when it leaves. So a packet costs a viewer no more than its copy, and what is lost,
// late or repeated on its way to us is sorted out once.

import { timestampDiff } from "../wire/rtp/sequence.ts";
import { SequenceMap } from "../wire/rtp/sequence-map.ts";
import type { Seat } from "./seat.ts";
import { SeatTable } from "./seat-table.ts";
import type { SourcePacket } from "./source-packet.ts";
import type { TakenRun } from "./take.ts";

export class Audience {
  readonly table = new SeatTable();
  /** Which numbers came, and which are missing. */
  readonly numbers = new SequenceMap(0);
  /** Of the packet after which the newest seat was taken. */
  #joinedAt = Number.NEGATIVE_INFINITY;
  /** Somebody may wait for a number up to here that others have. */
  #unsettledUpTo = Number.NEGATIVE_INFINITY;
  /** Of the newest frame, and when its first packet came. */
  timestamp = 0;
  timestampAtMs = 0;
  /** Of the newest packet that has them. */
  readonly vp8 = { seen: false, pictureId: -1, wide: false, tl0PicIdx: -1, keyIdx: -1 };
  packets = 0;
  octets = 0;
  bytes = 0;

  get size(): number {
    return this.table.seats.length;
  }

  /** Of the newest packet, unwrapped. */
  get highest(): number {
    return this.numbers.highest;
  }

  /** Whether a packet is for all, for none (they have had it), or for each to say: when it is empty, or older than a seat. */
  fateOf({ extended, view }: SourcePacket): "for all" | "for none" | "for each to say" {
    if (this.size === 0 || view.payloadLength === 0) return "for each to say";
    if (!this.numbers.isLate(extended)) return "for all";
    if (extended <= this.#unsettledUpTo) return "for each to say";
    if (!this.numbers.isExpected(extended)) return "for none";
    return extended > this.#joinedAt ? "for all" : "for each to say";
  }

  /** Call with a packet that is for all, once it has been sent to them. */
  advance(packet: SourcePacket, nowMs: number): void {
    const { view, vp8 } = packet;
    const isLate = this.numbers.isLate(packet.extended);
    this.numbers.forward(packet.extended);
    this.packets += 1;
    this.octets += view.payloadLength;
    this.bytes += view.length;
    if (isLate) return;
    if (timestampDiff(view.timestamp, this.timestamp) > 0) this.#beginFrame(view.timestamp, nowMs);
    this.#takeIds(vp8);
  }

  /** The same with packets in a row that go on where it is. */
  advanceBy({ count, bytes, payloadBytes, timestamp, vp8 }: TakenRun, nowMs: number): void {
    this.numbers.forwardNext(count);
    this.packets += count;
    this.octets += payloadBytes;
    this.bytes += bytes;
    if (timestampDiff(timestamp, this.timestamp) > 0) this.#beginFrame(timestamp, nowMs);
    this.#takeIds(vp8);
  }

  #takeIds({ length, pictureId, wide, tl0PicIdx, keyIdx }: TakenRun["vp8"]): void {
    if (length === 0) return;
    const ids = this.vp8;
    ids.seen = true;
    ids.pictureId = pictureId;
    ids.wide = wide;
    ids.tl0PicIdx = tl0PicIdx;
    ids.keyIdx = keyIdx;
  }

  #beginFrame(timestamp: number, nowMs: number): void {
    this.timestamp = timestamp;
    this.timestampAtMs = nowMs;
  }

  /** For one who has just been sent `packet` by itself. False: the others are not there yet, or its seat fits no row. */
  seat(seat: Seat, packet: SourcePacket, nowMs: number): boolean {
    if (this.size > 0 && this.highest !== packet.extended) return false;
    if (!this.table.add(seat)) return false;
    if (this.size === 1) this.#begin(packet, nowMs);
    this.#joinedAt = packet.extended;
    this.#unsettledUpTo = Math.max(this.#unsettledUpTo, seat.unsettledUpTo);
    return true;
  }

  #begin(packet: SourcePacket, nowMs: number): void {
    this.numbers.switchTo(packet.extended);
    this.numbers.forward(packet.extended);
    this.#unsettledUpTo = Number.NEGATIVE_INFINITY;
    this.#beginFrame(packet.view.timestamp, nowMs);
    this.#takeIds(packet.vp8);
  }

  /** Everyone leaves. */
  dissolve(): void {
    while (this.size > 0) this.table.seats.at(-1)?.leave();
  }
}
