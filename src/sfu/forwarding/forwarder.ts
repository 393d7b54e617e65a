// What one subscription makes of a published packet: forward it, and with which header. Pure: packet and state in,
// header values out. Sequence numbers, timestamps and VP8 picture ids run on over layer switches, source switches
// and pauses; a video layer is entered only at a keyframe.

import type { MediaCodec } from "../codec/keyframe.ts";
import { type Vp8Descriptor, Vp8Munger } from "../codec/vp8.ts";
import type { RtpView } from "../rtp/rtp.ts";
import { SequenceMap } from "../rtp/sequence-map.ts";
import { type ClockReference, TimestampMap } from "../rtp/timestamp-map.ts";
import type { Audience } from "./audience.ts";
import type { FanOutTarget } from "./fan-out.ts";
import type { Seat } from "./seat.ts";

export const PAUSED = -1;
const MIN_FIRST_SEQUENCE = 1_000;
const MAX_FIRST_SEQUENCE = 32_767;

/** `random` in [0, 1). */
export function firstSequence(random: () => number): number {
  return MIN_FIRST_SEQUENCE + Math.floor(random() * (MAX_FIRST_SEQUENCE - MIN_FIRST_SEQUENCE + 1));
}

export interface ForwarderOptions {
  ssrc: number;
  clockRate: number;
  codec: MediaCodec;
  /** As negotiated with this viewer for the codec. */
  payloadType: number;
  firstSequence: number;
  firstTimestamp: number;
}

/** A received packet, with what its publication found out about it once for all viewers. */
export interface SourcePacket {
  view: RtpView;
  layer: number;
  /** The layer's sequence number, unwrapped. */
  extended: number;
  /** This packet begins a keyframe (always true for audio). */
  keyframe: boolean;
  /** Parsed from this packet when the codec is VP8. */
  vp8: Vp8Descriptor;
}

/** Whose seat it is. */
export interface Sitter {
  readonly numbers: Seat["numbers"];
  /** It sits there no longer: it has been sent so many bytes, and this number last. */
  left(bytes: number, lastOutgoing: number): void;
}

type Seated = { audience: Audience; seat: Seat; sitter: Sitter; packets: number; octets: number; bytes: number };

export class Forwarder {
  readonly ssrc: number;
  #codec: MediaCodec;
  #payloadType: number;
  readonly #sequence: SequenceMap;
  readonly #timestamp: TimestampMap;
  readonly #vp8 = new Vp8Munger();
  readonly #references = new Map<number, ClockReference>();
  #target = PAUSED;
  #current = PAUSED;
  /** The layer the outgoing line was last fed from: its clock and numbers are the ones the maps know. */
  #previous = PAUSED;
  #otherSource = false;
  #clockRate: number;
  /** Counts packets that entered a layer: a caller sees by a change that a switch took place. */
  switches = 0;
  #packets = 0;
  #octets = 0;
  /** While this viewer sits in an audience the numbers move there: with what it had counted when it was joined. */
  #seated: Seated | null = null;

  constructor(options: ForwarderOptions) {
    this.ssrc = options.ssrc;
    this.#codec = options.codec;
    this.#payloadType = options.payloadType;
    this.#clockRate = options.clockRate;
    this.#sequence = new SequenceMap(options.firstSequence);
    this.#timestamp = new TimestampMap(options.clockRate, options.firstTimestamp);
  }

  get packets(): number {
    const seated = this.#seated;
    return this.#packets + (seated ? seated.audience.packets - seated.packets : 0);
  }

  get octets(): number {
    const seated = this.#seated;
    return this.#octets + (seated ? seated.audience.octets - seated.octets : 0);
  }

  /** Sent since the audience was joined. */
  get seatedBytes(): number {
    const seated = this.#seated;
    return seated ? seated.audience.bytes - seated.bytes : 0;
  }

  get lastOutgoing(): number {
    const seated = this.#seated;
    return seated ? seated.audience.highest - seated.seat.sequenceOffset : this.#sequence.lastOutgoing;
  }

  get currentLayer(): number {
    return this.#current;
  }

  get targetLayer(): number {
    return this.#target;
  }

  get codec(): MediaCodec {
    return this.#codec;
  }

  /** The target layer can only be entered with a keyframe that has not come yet. */
  get wantsKeyframe(): boolean {
    return this.#codec !== "audio" && this.#target !== PAUSED && this.#current !== this.#target;
  }

  /** Something of the present source has been forwarded. */
  get hasSource(): boolean {
    return this.#previous !== PAUSED;
  }

  /** PAUSED stops at once; a layer begins with its next keyframe, and until then the current one goes on. */
  setTarget(layer: number): void {
    this.leave();
    this.#target = layer;
    if (layer === PAUSED) this.#current = PAUSED;
  }

  /** Another publisher (or the same one with a new stream) takes this place. Stays paused until `setTarget`. */
  switchSource(source: { codec: MediaCodec; payloadType: number; clockRate: number }): void {
    this.leave();
    this.#codec = source.codec;
    this.#payloadType = source.payloadType;
    this.#clockRate = source.clockRate;
    this.#target = PAUSED;
    this.#current = PAUSED;
    this.#previous = PAUSED;
    this.#otherSource = true;
    this.#references.clear();
  }

  /** The layer goes on as another stream: its numbers and its clock begin anew, with the next keyframe. */
  layerRestarted(layer: number): void {
    this.leave();
    this.#references.delete(layer);
    if (layer === this.#previous) this.#previous = PAUSED;
    if (layer === this.#current) this.#current = PAUSED;
  }

  /** From the publisher's sender reports of each layer. */
  setSenderReport(layer: number, reference: ClockReference): void {
    this.#references.set(layer, reference);
    if (layer === this.#previous) this.#timestamp.setReference(reference);
  }

  /** A publisher's timestamp on this viewer's line; undefined when the layer is not the one being forwarded. */
  mapTimestamp(layer: number, timestamp: number): number | undefined {
    return layer === this.#current ? (timestamp + this.#timestamp.offset) >>> 0 : undefined;
  }

  /**
   * Takes a seat in the layer's audience, which has just been sent `packet`, as this viewer has by `target`: from now on both
   * get the same. False when this viewer waits for something else.
   */
  join(audience: Audience, packet: SourcePacket, target: FanOutTarget, nowMs: number, sitter: Sitter): boolean {
    const { layer, extended } = packet;
    if (this.#current !== layer || this.#target !== layer || this.#sequence.highest !== extended) return false;
    const seat: Seat = {
      transport: target.transport,
      extensions: target.extensions,
      numbers: sitter.numbers,
      ssrc: this.ssrc,
      payloadType: this.#payloadType,
      sequenceOffset: this.#sequence.offset,
      timestampOffset: this.#timestamp.offset,
      vp8Offsets: this.#codec === "vp8" ? this.#vp8.offsets : null,
      index: -1,
      leave: () => this.leave(),
    };
    if (!audience.seat(seat, packet, nowMs)) return false;
    const { packets, octets, bytes } = audience;
    this.#seated = { audience, seat, sitter, packets, octets, bytes };
    seat.transport.seated.add(seat);
    return true;
  }

  get seat(): Seat | null {
    return this.#seated?.seat ?? null;
  }

  /** Leaves the audience, if there is one, as though every packet since had been forwarded by itself. */
  leave(): void {
    const seated = this.#seated;
    if (!seated) return;
    const { audience, seat } = seated;
    const { packets, octets, seatedBytes } = this;
    if (audience.packets > seated.packets) {
      this.#sequence.catchUp(audience.highest);
      this.#timestamp.catchUp(audience.timestamp, audience.timestampAtMs);
      if (seat.vp8Offsets && audience.vp8.seen) this.#vp8.map(audience.vp8, false);
      seat.transport.srtp.reached(seat.ssrc, this.#sequence.lastOutgoing);
    }
    this.#packets = packets;
    this.#octets = octets;
    this.#seated = null;
    audience.table.remove(seat);
    seat.transport.seated.delete(seat);
    seated.sitter.left(seatedBytes, this.#sequence.lastOutgoing);
  }

  /**
   * Fills `target` and returns true when the packet is to be sent. When it entered a layer (`switches` grew) and
   * younger packets of that layer are already in the ring, feed those again in order: the keyframe's first packet
   * came late.
   */
  forward(packet: SourcePacket, target: FanOutTarget, nowMs: number): boolean {
    const { view, layer, extended } = packet;
    let entered = false;
    this.leave();
    if (this.#target === PAUSED) return false;
    if (layer !== this.#current) {
      if (layer !== this.#target || !packet.keyframe || view.payloadLength === 0) return false;
      this.#enter(packet, nowMs);
      entered = true;
    }
    // Probing packets without payload stay behind, unless a gap was already left for this one.
    if (view.payloadLength === 0 && this.#sequence.drop(extended)) return false;
    const late = this.#sequence.isLate(extended);
    const outgoing = this.#sequence.forward(extended);
    if (outgoing < 0) return false;
    target.ssrc = this.ssrc;
    target.sequenceNumber = outgoing & 0xffff;
    target.timestamp = this.#timestamp.map(view.timestamp, nowMs, late);
    target.payloadType = this.#payloadType;
    // A voice that starts again says so (RFC 3551 §4.1): the jitter buffer then adapts without a click.
    target.marker = view.marker || (entered && this.#codec === "audio");
    target.originalSequenceNumber = -1;
    target.sentAtMs = nowMs;
    target.prefixLength = this.#codec === "vp8" ? this.#rewriteVp8(packet, target, late) : 0;
    this.#packets += 1;
    this.#octets += view.payloadLength;
    return true;
  }

  #enter(packet: SourcePacket, nowMs: number): void {
    const { view, layer, extended } = packet;
    this.#sequence.switchTo(extended);
    this.#timestamp.switchTo(view.timestamp, nowMs, {
      sameClock: layer === this.#previous,
      otherSource: this.#otherSource,
      reference: this.#references.get(layer),
      clockRate: this.#clockRate,
    });
    if (this.#codec === "vp8") this.#vp8.switchTo(packet.vp8);
    this.#current = layer;
    this.#previous = layer;
    this.#otherSource = false;
    this.switches += 1;
  }

  #rewriteVp8(packet: SourcePacket, target: FanOutTarget, late: boolean): number {
    const { view, vp8 } = packet;
    if (view.payloadLength === 0 || vp8.length === 0) return 0;
    return vp8.rewrite(view.data, view.payloadOffset, target.prefix, this.#vp8.map(vp8, late));
  }
}
