/**
 * A forwarder that joins the fan-out group of its layer whenever it would forward every packet as the other subscribers
 * do. While it is a member, the group keeps its sequence numbers; before anything changes for this subscriber alone, it
 * leaves.
 */
import type { FanOutTarget } from "../forwarding/fan-out-target.ts";
import { Forwarder } from "../forwarding/forwarder.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import type { FanOutGroup } from "./fan-out-group.ts";
import type { SubscriberSlot } from "./subscriber-slot.ts";

/** The subscriber that a slot belongs to. */
export interface SlotHolder {
  readonly numbers: SubscriberSlot["numbers"];
  /** Called when the slot was removed, with the bytes sent from it and the last sequence number. */
  left(bytes: number, lastOutgoing: number): void;
}

/** Counters are those of the group when this forwarder joined it. */
type Membership = {
  group: FanOutGroup;
  slot: SubscriberSlot;
  holder: SlotHolder;
  packets: number;
  octets: number;
  bytes: number;
};

export class GroupForwarder extends Forwarder {
  #membership: Membership | null = null;

  get slot(): SubscriberSlot | null {
    return this.#membership?.slot ?? null;
  }

  override get packets(): number {
    const member = this.#membership;
    return super.packets + (member ? member.group.packets - member.packets : 0);
  }

  override get octets(): number {
    const member = this.#membership;
    return super.octets + (member ? member.group.octets - member.octets : 0);
  }

  /** The bytes sent since this forwarder joined its group. */
  get groupBytes(): number {
    const member = this.#membership;
    return member ? member.group.bytes - member.bytes : 0;
  }

  override get lastOutgoing(): number {
    const member = this.#membership;
    return member ? member.group.highest - member.slot.sequenceOffset : super.lastOutgoing;
  }

  override setTarget(layer: number, spatial?: number, temporal?: number): void {
    this.leave();
    super.setTarget(layer, spatial, temporal);
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
    this.leave();
    return super.forward(packet, target, nowMs);
  }

  /**
   * Joins the group of the layer, which has just been sent `packet`, as this subscriber has by `target`. Returns false when this
   * subscriber waits for another layer or packet.
   */
  join(group: FanOutGroup, packet: SourcePacket, target: FanOutTarget, nowMs: number, holder: SlotHolder): boolean {
    const constants = this.constants(packet);
    if (!constants) return false;
    const { transport, extensions } = target;
    const leave = () => this.leave();
    const slot: SubscriberSlot = { ...constants, transport, extensions, numbers: holder.numbers, index: -1, leave };
    if (!group.add(slot, packet, nowMs)) return false;
    const { packets, octets, bytes } = group;
    this.#membership = { group, slot, holder, packets, octets, bytes };
    transport.slots.add(slot);
    return true;
  }

  /** Leaves the group, if it is in one, with the same state as if it had forwarded every packet since by itself. */
  leave(): void {
    const member = this.#membership;
    if (!member) return;
    const { group, slot, holder } = member;
    const { groupBytes } = this;
    const { numbers, timestamp, timestampAtMs, vp8 } = group;
    const packets = group.packets - member.packets;
    const octets = group.octets - member.octets;
    this.#membership = null;
    if (packets > 0) {
      this.catchUp({ packets, octets, numbers, timestamp, timestampAtMs, vp8 });
      slot.transport.srtp.advanceTo(slot.ssrc, this.lastOutgoing);
    }
    group.table.remove(slot);
    slot.transport.slots.delete(slot);
    holder.left(groupBytes, this.lastOutgoing);
  }
}
