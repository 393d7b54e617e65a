/**
 * Answers NACKs even for packets that a subscriber got as a member of a fan-out group: their headers are derived again
 * from its slot.
 */
import type { FanOutTarget } from "../forwarding/fan-out-target.ts";
import { NackResponder } from "../forwarding/nack-responder.ts";
import { Vp8Descriptor } from "../wire/codec/vp8.ts";
import type { PacketRing } from "../wire/rtp/packet-ring.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";
import type { FanOutGroup } from "./fan-out-group.ts";
import { describeCopy, type SubscriberSlot } from "./subscriber-slot.ts";

/**
 * A subscriber has fewer memberships than this in the second for which packets are kept, however many packets are lost on the way
 * to the server.
 */
const MAX_MEMBERSHIPS = 64;

/**
 * The outgoing sequence numbers `from` … `to` were sent from the slot. `to` is null while the subscriber is a member;
 * afterwards `missing` lists the sequence numbers that were left free.
 */
interface Membership {
  slot: SubscriberSlot;
  group: FanOutGroup;
  ring: PacketRing;
  from: number;
  to: number | null;
  missing: readonly number[];
}

export class GroupNackResponder extends NackResponder {
  /** Newest last. */
  #memberships: Membership[] = [];
  readonly #vp8 = new Vp8Descriptor();

  joinedGroup(slot: SubscriberSlot, group: FanOutGroup, ring: PacketRing): void {
    const from = group.highest + 1 - slot.sequenceOffset;
    this.#memberships.push({ slot, group, ring, from, to: null, missing: [] });
    if (this.#memberships.length > MAX_MEMBERSHIPS) this.#memberships.shift();
  }

  leftGroup(lastOutgoing: number): void {
    const member = this.#memberships.at(-1);
    if (!member) return;
    member.to = lastOutgoing;
    member.missing = member.group.numbers.missingFrom(member.from + member.slot.sequenceOffset);
    if (member.to < member.from) this.#memberships.pop();
  }

  protected override recall(
    sequenceNumber: number,
    nowMs: number,
    view: RtpView,
    target: FanOutTarget,
    repeatsBytes: boolean,
  ): void {
    for (const { slot, group, ring, from, to, missing } of this.#memberships) {
      const last = to ?? group.highest - slot.sequenceOffset;
      const outgoing = last - ((last - sequenceNumber) & 0xffff);
      if (outgoing < from) continue;
      const extended = outgoing + slot.sequenceOffset;
      if (to === null ? group.numbers.isExpected(extended) : missing.includes(extended)) continue;
      if (this.hasRecord(sequenceNumber, extended)) return;
      if (!ring.read(extended, nowMs, view)) continue;
      this.#vp8.parse(view.data, view.payloadOffset, slot.vp8Offsets ? view.payloadLength : 0);
      const packet = { view, extended, vp8: this.#vp8, layer: 0, keyframe: false };
      const sentAtMs = ring.arrivedAtMs(extended);
      describeCopy(slot, packet, sentAtMs, target);
      if (repeatsBytes && slot.numbers) {
        target.transportSequence = slot.numbers.find(sentAtMs, view.length, outgoing);
        // Sending other bytes under the same number would reveal the authentication key.
        if (target.transportSequence < 0) return;
      }
      this.record(target, ring, extended);
    }
  }

  override clear(): void {
    super.clear();
    this.#memberships = [];
  }
}
