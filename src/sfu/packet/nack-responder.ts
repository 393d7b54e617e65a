// Answers a viewer's NACKs: remembers which packet of which layer each outgoing sequence number was, and what it
// looked like. Re-sends of one packet are held apart by the round trip: the viewer repeats itself faster than that.

import type { FanOutTarget } from "./fan-out.ts";
import type { PacketRing } from "./packet-ring.ts";
import type { RtpView } from "./rtp.ts";
import type { RtxStream } from "./rtx.ts";

const MAX_RESENDS = 6;
const PREFIX_BYTES = 8;
const RECENT_PACKETS = 16;

export interface RtxAnswer {
  stream: RtxStream;
  payloadType: number;
}

export class NackResponder {
  readonly #mask: number;
  readonly #rings: (PacketRing | undefined)[];
  readonly #extended: Float64Array;
  readonly #sequence: Int32Array;
  readonly #timestamp: Uint32Array;
  /** Payload type, with the marker as its highest bit. */
  readonly #typeAndMarker: Uint8Array;
  readonly #transportSequence: Uint16Array;
  readonly #sentAt: Float64Array;
  readonly #resentAt: Float64Array;
  readonly #resends: Uint8Array;
  readonly #prefixLength: Uint8Array;
  readonly #prefix: Uint8Array;
  #ssrc = 0;
  #latest = -1;
  #probed = 0;
  resent = 0;
  unanswered = 0;

  /** `capacity` is a power of two: at least a second of packets. */
  constructor(capacity = 512) {
    this.#mask = capacity - 1;
    this.#rings = new Array<PacketRing | undefined>(capacity).fill(undefined);
    this.#extended = new Float64Array(capacity);
    this.#sequence = new Int32Array(capacity).fill(-1);
    this.#timestamp = new Uint32Array(capacity);
    this.#typeAndMarker = new Uint8Array(capacity);
    this.#transportSequence = new Uint16Array(capacity);
    this.#sentAt = new Float64Array(capacity);
    this.#resentAt = new Float64Array(capacity);
    this.#resends = new Uint8Array(capacity);
    this.#prefixLength = new Uint8Array(capacity);
    this.#prefix = new Uint8Array(capacity * PREFIX_BYTES);
  }

  /** Call with every forwarded packet, once `target` is complete. */
  record(target: FanOutTarget, ring: PacketRing, extended: number): void {
    const slot = target.sequenceNumber & this.#mask;
    this.#ssrc = target.ssrc;
    this.#latest = target.sequenceNumber;
    this.#rings[slot] = ring;
    this.#extended[slot] = extended;
    this.#sequence[slot] = target.sequenceNumber;
    this.#timestamp[slot] = target.timestamp;
    this.#typeAndMarker[slot] = target.payloadType | (target.marker ? 0x80 : 0);
    this.#transportSequence[slot] = target.transportSequence;
    this.#sentAt[slot] = target.sentAtMs;
    this.#resentAt[slot] = Number.NEGATIVE_INFINITY;
    this.#resends[slot] = 0;
    this.#prefixLength[slot] = target.prefixLength;
    for (let i = 0; i < target.prefixLength; i++) this.#prefix[slot * PREFIX_BYTES + i] = target.prefix[i] as number;
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
    const slot = sequenceNumber & this.#mask;
    const ring = this.#rings[slot];
    if (ring === undefined || this.#sequence[slot] !== sequenceNumber) return this.#refuse();
    if ((this.#resends[slot] as number) >= MAX_RESENDS) return this.#refuse();
    if (nowMs - (this.#resentAt[slot] as number) < rttMs * 0.8) return false;
    if (!ring.read(this.#extended[slot] as number, nowMs, view)) return this.#refuse();
    this.#resends[slot] = (this.#resends[slot] as number) + 1;
    this.#resentAt[slot] = nowMs;
    this.#restore(slot, target);
    if (rtx !== undefined) this.#overRtx(sequenceNumber, target, rtx);
    this.resent += 1;
    return true;
  }

  /** One of the last packets once more, over RTX: the best padding there is for a probe. False when none is left. */
  repeatRecent(nowMs: number, view: RtpView, target: FanOutTarget, rtx: RtxAnswer): boolean {
    for (let tries = 0; tries < RECENT_PACKETS && this.#latest >= 0; tries++) {
      this.#probed = (this.#probed + 1) % RECENT_PACKETS;
      const sequenceNumber = (this.#latest - this.#probed) & 0xffff;
      const slot = sequenceNumber & this.#mask;
      if (this.#sequence[slot] !== sequenceNumber) continue;
      if (!this.#rings[slot]?.read(this.#extended[slot] as number, nowMs, view)) continue;
      this.#restore(slot, target);
      this.#overRtx(sequenceNumber, target, rtx);
      return true;
    }
    return false;
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
    target.ssrc = this.#ssrc;
    target.sequenceNumber = this.#sequence[slot] as number;
    target.originalSequenceNumber = -1;
    target.timestamp = this.#timestamp[slot] as number;
    const typeAndMarker = this.#typeAndMarker[slot] as number;
    target.payloadType = typeAndMarker & 0x7f;
    target.marker = (typeAndMarker & 0x80) !== 0;
    target.transportSequence = this.#transportSequence[slot] as number;
    target.sentAtMs = this.#sentAt[slot] as number;
    target.prefixLength = this.#prefixLength[slot] as number;
    for (let i = 0; i < target.prefixLength; i++) target.prefix[i] = this.#prefix[slot * PREFIX_BYTES + i] as number;
  }

  /** Another publisher took the place: what was sent before is not sent again. */
  clear(): void {
    this.#rings.fill(undefined);
    this.#sequence.fill(-1);
    this.#latest = -1;
  }
}
