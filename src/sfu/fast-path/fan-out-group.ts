/**
 * The subscribers of one layer that get all of its packets. The state that changes with every packet changes for all of them alike, so
 * it is kept here once, and each subscriber takes it over when it leaves. A packet costs a subscriber no more than its copy, and
 * packets that are lost, late or repeated on their way to the server are sorted out once.
 */
import type { SourcePacket } from "../forwarding/source-packet.ts";
import { timestampDiff } from "../wire/rtp/sequence.ts";
import { SequenceMap } from "../wire/rtp/sequence-map.ts";
import type { PacketRun } from "./receive-batch.ts";
import { SlotTable, type SubscriberSlot } from "./subscriber-slot.ts";

export class FanOutGroup {
  readonly table = new SlotTable();
  /** The sequence numbers that arrived, and those that are missing. */
  readonly numbers = new SequenceMap(0);
  /** The sequence number of the packet after which the newest slot was added. */
  #joinedAt = Number.NEGATIVE_INFINITY;
  /** Up to this sequence number a subscriber may wait for a packet that the others already have. */
  #unsettledUpTo = Number.NEGATIVE_INFINITY;
  /** The RTP timestamp of the newest frame, and when its first packet came. */
  timestamp = 0;
  timestampAtMs = 0;
  /** The VP8 ids of the newest packet that has any. */
  readonly vp8 = { seen: false, pictureId: -1, wide: false, tl0PicIdx: -1, keyIdx: -1 };
  packets = 0;
  octets = 0;
  bytes = 0;

  get size(): number {
    return this.table.slots.length;
  }

  /** The sequence number of the newest packet, unwrapped. */
  get highest(): number {
    return this.numbers.highest;
  }

  /**
   * "forward": the packet goes to all subscribers. "drop": all of them have it. "dissolve": it is empty or older than the newest
   * slot, so each subscriber has to decide for itself.
   */
  decide({ extended, view }: SourcePacket): "forward" | "drop" | "dissolve" {
    if (this.size === 0 || view.payloadLength === 0) return "dissolve";
    if (!this.numbers.isLate(extended)) return "forward";
    if (extended <= this.#unsettledUpTo) return "dissolve";
    if (!this.numbers.isExpected(extended)) return "drop";
    return extended > this.#joinedAt ? "forward" : "dissolve";
  }

  /** Called with a packet that was sent to all subscribers. */
  advance(packet: SourcePacket, nowMs: number): void {
    const { view, vp8 } = packet;
    const isLate = this.numbers.isLate(packet.extended);
    this.numbers.forward(packet.extended);
    this.packets += 1;
    this.octets += view.payloadLength;
    this.bytes += view.length;
    if (isLate) return;
    if (timestampDiff(view.timestamp, this.timestamp) > 0) this.#beginFrame(view.timestamp, nowMs);
    this.#setIds(vp8);
  }

  /** Does the same for a run of packets that follow the newest one. */
  advanceBy({ count, bytes, payloadBytes, timestamp, vp8 }: PacketRun, nowMs: number): void {
    this.numbers.forwardNext(count);
    this.packets += count;
    this.octets += payloadBytes;
    this.bytes += bytes;
    if (timestampDiff(timestamp, this.timestamp) > 0) this.#beginFrame(timestamp, nowMs);
    this.#setIds(vp8);
  }

  #setIds({ length, pictureId, wide, tl0PicIdx, keyIdx }: PacketRun["vp8"]): void {
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

  /**
   * Adds a subscriber that has just been sent `packet` by itself. Returns false when the group has not reached that packet, or when
   * the slot fits no row.
   */
  add(slot: SubscriberSlot, packet: SourcePacket, nowMs: number): boolean {
    if (this.size > 0 && this.highest !== packet.extended) return false;
    if (!this.table.add(slot)) return false;
    if (this.size === 1) this.#begin(packet, nowMs);
    this.#joinedAt = packet.extended;
    this.#unsettledUpTo = Math.max(this.#unsettledUpTo, slot.unsettledUpTo);
    return true;
  }

  #begin(packet: SourcePacket, nowMs: number): void {
    this.numbers.switchTo(packet.extended);
    this.numbers.forward(packet.extended);
    this.#unsettledUpTo = Number.NEGATIVE_INFINITY;
    this.#beginFrame(packet.view.timestamp, nowMs);
    this.#setIds(packet.vp8);
  }

  dissolve(): void {
    while (this.size > 0) this.table.slots.at(-1)?.leave();
  }
}
