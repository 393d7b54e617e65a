// The viewers of one layer who get all of its packets, in order. What changes with every packet changes for all of them
// alike: it is kept here once, and each takes it over when it leaves. So a packet costs a viewer no more than its copy.

import type { Vp8Descriptor } from "../codec/vp8.ts";
import { timestampDiff } from "../rtp/sequence.ts";
import type { Seat } from "./seat.ts";
import { SeatTable } from "./seat-table.ts";
import type { SourcePacket } from "./source-packet.ts";

export class Audience {
  readonly table = new SeatTable();
  /** Of the newest packet, unwrapped. */
  highest = -1;
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

  /** False when every viewer has to be asked what this packet is to it: something is missing, late or empty. */
  isNext({ extended, view }: SourcePacket): boolean {
    return extended === this.highest + 1 && view.payloadLength > 0 && this.size > 0;
  }

  /** Call with the next packet, once it has been sent to all. */
  advance(packet: SourcePacket, nowMs: number): void {
    const { view, vp8 } = packet;
    this.highest = packet.extended;
    this.packets += 1;
    this.octets += view.payloadLength;
    this.bytes += view.length;
    if (timestampDiff(view.timestamp, this.timestamp) > 0) this.#beginFrame(view.timestamp, nowMs);
    this.#takeIds(vp8);
  }

  #takeIds({ length, pictureId, wide, tl0PicIdx, keyIdx }: Vp8Descriptor): void {
    if (length > 0) Object.assign(this.vp8, { seen: true, pictureId, wide, tl0PicIdx, keyIdx });
  }

  #beginFrame(timestamp: number, nowMs: number): void {
    this.timestamp = timestamp;
    this.timestampAtMs = nowMs;
  }

  /** For one who has just been sent `packet` by itself. False: the others are not there yet, or its seat fits no row. */
  seat(seat: Seat, packet: SourcePacket, nowMs: number): boolean {
    if (this.size > 0 && this.highest !== packet.extended) return false;
    if (!this.table.add(seat)) return false;
    if (this.size === 1) {
      this.highest = packet.extended;
      this.#beginFrame(packet.view.timestamp, nowMs);
      this.#takeIds(packet.vp8);
    }
    return true;
  }

  /** Everyone leaves. */
  dissolve(): void {
    while (this.size > 0) this.table.seats.at(-1)?.leave();
  }
}
