/**
 * A forwarder that takes a seat in its layer's audience whenever it would make of every packet what the others make of it.
 * While it sits there the numbers move in the audience, once for all; whatever concerns this viewer alone makes it leave first.
 */

import type { Audience } from "./audience.ts";
import type { FanOutTarget } from "./fan-out-target.ts";
import { Forwarder } from "./forwarder.ts";
import type { Seat } from "./seat.ts";
import type { SourcePacket } from "./source-packet.ts";

/** Whose seat it is. */
export interface SeatHolder {
  readonly numbers: Seat["numbers"];
  /** It sits there no longer: it has been sent so many bytes, and this number last. */
  left(bytes: number, lastOutgoing: number): void;
}

/** With what the audience had been sent when it was joined. */
type Seated = { audience: Audience; seat: Seat; holder: SeatHolder; packets: number; octets: number; bytes: number };

export class SharingForwarder extends Forwarder {
  #seated: Seated | null = null;

  get seat(): Seat | null {
    return this.#seated?.seat ?? null;
  }

  override get packets(): number {
    const seated = this.#seated;
    return super.packets + (seated ? seated.audience.packets - seated.packets : 0);
  }

  override get octets(): number {
    const seated = this.#seated;
    return super.octets + (seated ? seated.audience.octets - seated.octets : 0);
  }

  /** Sent since the audience was joined. */
  get seatedBytes(): number {
    const seated = this.#seated;
    return seated ? seated.audience.bytes - seated.bytes : 0;
  }

  override get lastOutgoing(): number {
    const seated = this.#seated;
    return seated ? seated.audience.highest - seated.seat.sequenceOffset : super.lastOutgoing;
  }

  override setTarget(layer: number): void {
    this.leave();
    super.setTarget(layer);
  }

  override switchSource(source: Parameters<Forwarder["switchSource"]>[0]): void {
    this.leave();
    super.switchSource(source);
  }

  override layerRestarted(layer: number): void {
    this.leave();
    super.layerRestarted(layer);
  }

  override forward(packet: SourcePacket, target: FanOutTarget, nowMs: number): boolean {
    if (this.#seated) this.leave();
    return super.forward(packet, target, nowMs);
  }

  /**
   * Takes a seat in the layer's audience, which has just been sent `packet`, as this viewer has by `target`: from now on both
   * get the same. False when this viewer waits for something else.
   */
  join(audience: Audience, packet: SourcePacket, target: FanOutTarget, nowMs: number, holder: SeatHolder): boolean {
    const constants = this.constants(packet);
    if (!constants) return false;
    const { transport, extensions } = target;
    const seat: Seat = {
      ...constants,
      transport,
      extensions,
      numbers: holder.numbers,
      index: -1,
      leave: () => this.leave(),
    };
    if (!audience.seat(seat, packet, nowMs)) return false;
    const { packets, octets, bytes } = audience;
    this.#seated = { audience, seat, holder, packets, octets, bytes };
    transport.seated.add(seat);
    return true;
  }

  /** Leaves the audience, if there is one, as though every packet since had been forwarded by itself. */
  leave(): void {
    const seated = this.#seated;
    if (!seated) return;
    const { audience, seat } = seated;
    const { seatedBytes } = this;
    const { numbers, timestamp, timestampAtMs, vp8 } = audience;
    const packets = audience.packets - seated.packets;
    const octets = audience.octets - seated.octets;
    this.#seated = null;
    if (packets > 0) {
      this.catchUp({ packets, octets, numbers, timestamp, timestampAtMs, vp8 });
      seat.transport.srtp.advanceTo(seat.ssrc, this.lastOutgoing);
    }
    audience.table.remove(seat);
    seat.transport.seated.delete(seat);
    seated.holder.left(seatedBytes, this.lastOutgoing);
  }
}
