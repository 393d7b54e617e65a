/**
 * How one subscription forwards the packets of a track: which of them, and with which header. Packet and state in, header values out;
 * it knows no sockets. Sequence numbers, timestamps and VP8 picture ids stay continuous over layer switches, source switches and
 * pauses; a video layer is entered only at a keyframe.
 */
import type { MediaCodec } from "../wire/codec/keyframe.ts";
import { type Vp8Ids, Vp8Munger } from "../wire/codec/vp8.ts";
import { SequenceMap } from "../wire/rtp/sequence-map.ts";
import { type ClockReference, TimestampMap } from "../wire/rtp/timestamp-map.ts";
import type { FanOutTarget } from "./fan-out-target.ts";
import type { SourcePacket, SvcPosition, TemporalPosition } from "./source-packet.ts";

export const PAUSED = -1;
/** The target of a subscriber that gets all spatial layers of a stream. */
export const ALL_SPATIAL = Number.POSITIVE_INFINITY;
export const ALL_TEMPORAL = Number.POSITIVE_INFINITY;
const MIN_FIRST_SEQUENCE = 1_000;
const MAX_FIRST_SEQUENCE = 32_767;

/** `random` in [0, 1). */
export function firstSequence(random: () => number): number {
  return MIN_FIRST_SEQUENCE + Math.floor(random() * (MAX_FIRST_SEQUENCE - MIN_FIRST_SEQUENCE + 1));
}

/** The differences between published and outgoing headers, which stay the same until the layer or the source changes. */
export interface CopyConstants {
  readonly ssrc: number;
  readonly payloadType: number;
  /** The outgoing sequence number is the published one, unwrapped, minus this. */
  readonly sequenceOffset: number;
  readonly timestampOffset: number;
  /** Null leaves the payload as it is. */
  readonly vp8Offsets: Readonly<Vp8Ids> | null;
  /** Packets up to this sequence number are missing and may still arrive. */
  readonly unsettledUpTo: number;
}

/** What was sent with those constants while the packets bypassed this forwarder. */
interface SentByConstants {
  packets: number;
  octets: number;
  /** The sequence numbers that arrived, and those that are missing. */
  numbers: SequenceMap;
  /** The timestamp of the newest frame, and when its first packet came. */
  timestamp: number;
  timestampAtMs: number;
  /** The VP8 ids of the newest packet that has any. */
  vp8: { readonly seen: boolean; readonly pictureId: number; readonly wide: boolean } & Vp8Ids;
}

interface ForwarderOptions {
  ssrc: number;
  clockRate: number;
  codec: MediaCodec;
  /** The payload type that the subscriber negotiated for the codec. */
  payloadType: number;
  firstSequence: number;
  firstTimestamp: number;
}

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
  /** The highest spatial layer that is forwarded now, and the one from the next frame or keyframe on. */
  #spatial = ALL_SPATIAL;
  #targetSpatial = ALL_SPATIAL;
  /** The same for temporal layers. */
  #temporal = ALL_TEMPORAL;
  #targetTemporal = ALL_TEMPORAL;
  /** The RTP timestamp of the newest frame, as temporal layers see it, and as spatial layers do. */
  #frameTimestamp = -1;
  #pictureTimestamp = -1;
  /** The layer that was forwarded last, whose clock and sequence numbers the maps follow. */
  #previous = PAUSED;
  #otherSource = false;
  #clockRate: number;
  /** Counts the layers that were entered, and changes of the spatial layers: after each, subscribers need a sender report. */
  switches = 0;
  #packets = 0;
  #octets = 0;

  constructor(options: ForwarderOptions) {
    this.ssrc = options.ssrc;
    this.#codec = options.codec;
    this.#payloadType = options.payloadType;
    this.#clockRate = options.clockRate;
    this.#sequence = new SequenceMap(options.firstSequence);
    this.#timestamp = new TimestampMap(options.clockRate, options.firstTimestamp);
  }

  get packets(): number {
    return this.#packets;
  }

  get octets(): number {
    return this.#octets;
  }

  get lastOutgoing(): number {
    return this.#sequence.lastOutgoing;
  }

  get currentLayer(): number {
    return this.#current;
  }

  get targetLayer(): number {
    return this.#target;
  }

  /** The target layer needs a keyframe to be entered, which has not arrived. */
  get wantsKeyframe(): boolean {
    if (this.#codec === "audio" || this.#target === PAUSED) return false;
    return this.#current !== this.#target || this.#spatial < this.#targetSpatial;
  }

  get currentSpatial(): number {
    return this.#spatial;
  }

  get targetSpatial(): number {
    return this.#targetSpatial;
  }

  get targetTemporal(): number {
    return this.#targetTemporal;
  }

  /** Whether the temporal layer of packets has to be read, because some layers are left out or the choice is about to change. */
  get readsTemporal(): boolean {
    return this.#temporal !== ALL_TEMPORAL || this.#targetTemporal !== ALL_TEMPORAL;
  }

  /** A packet of the current source has been forwarded. */
  get hasSource(): boolean {
    return this.#previous !== PAUSED;
  }

  /**
   * PAUSED takes effect at once. A layer begins with its next keyframe, and until then the current one continues. More spatial
   * layers begin with a keyframe too, fewer begin with the next frame. Fewer temporal layers begin with the next frame, more with
   * the first frame that allows it.
   */
  setTarget(layer: number, spatial = ALL_SPATIAL, temporal = ALL_TEMPORAL): void {
    this.#target = layer;
    this.#targetSpatial = spatial;
    this.#targetTemporal = temporal;
    if (layer === PAUSED) this.#current = PAUSED;
  }

  /** Another track takes the place of this one. The forwarder is paused until `setTarget`. */
  switchSource(source: { codec: MediaCodec; payloadType: number; clockRate: number }): void {
    this.#codec = source.codec;
    this.#payloadType = source.payloadType;
    this.#clockRate = source.clockRate;
    this.#target = PAUSED;
    this.#current = PAUSED;
    this.#previous = PAUSED;
    this.#otherSource = true;
    this.#references.clear();
  }

  /** The layer continues as another stream, with new sequence numbers and a new clock from its next keyframe on. */
  layerRestarted(layer: number): void {
    this.#references.delete(layer);
    if (layer === this.#previous) this.#previous = PAUSED;
    if (layer === this.#current) this.#current = PAUSED;
  }

  setSenderReport(layer: number, reference: ClockReference): void {
    this.#references.set(layer, reference);
    if (layer === this.#previous) this.#timestamp.setReference(reference);
  }

  /** The outgoing timestamp for a published one, or undefined when the layer is not forwarded. */
  mapTimestamp(layer: number, timestamp: number): number | undefined {
    return layer === this.#current ? (timestamp + this.#timestamp.offset) >>> 0 : undefined;
  }

  /** The constants after `packet`, the newest that was forwarded, or null while another layer or packet is awaited. */
  constants({ layer, extended, svc }: SourcePacket): CopyConstants | null {
    if (this.readsTemporal) return null;
    if (svc && Math.min(this.#spatial, this.#targetSpatial) < svc.top) return null;
    if (this.#current !== layer || this.#target !== layer || this.#sequence.highest !== extended) return null;
    return {
      ssrc: this.ssrc,
      payloadType: this.#payloadType,
      sequenceOffset: this.#sequence.offset,
      timestampOffset: this.#timestamp.offset,
      vp8Offsets: this.#codec === "vp8" ? this.#vp8.offsets : null,
      unsettledUpTo: this.#sequence.newestMissing,
    };
  }

  /** Applies packets that were sent with those constants, as if this forwarder had forwarded each. */
  catchUp(sent: SentByConstants): void {
    this.#packets += sent.packets;
    this.#octets += sent.octets;
    this.#sequence.catchUp(sent.numbers);
    this.#timestamp.catchUp(sent.timestamp, sent.timestampAtMs);
    this.#pictureTimestamp = this.#frameTimestamp = sent.timestamp;
    if (this.#codec === "vp8" && sent.vp8.seen) this.#vp8.map(sent.vp8, false);
  }

  /**
   * Fills `target` and returns true when the packet is to be sent. When it enters a layer (`switches` grows) and newer packets of
   * that layer are in the ring, the caller forwards those again in order: the keyframe's first packet came late.
   */
  forward(packet: SourcePacket, target: FanOutTarget, nowMs: number): boolean {
    const { view, layer, extended } = packet;
    let entered = false;
    if (this.#target === PAUSED) return false;
    if (layer !== this.#current) {
      if (layer !== this.#target || !packet.keyframe || view.payloadLength === 0) return false;
      this.#enter(packet, nowMs);
      entered = true;
    }
    const { svc, temporal } = packet;
    if (this.readsTemporal && temporal && this.#omits(packet, temporal) && this.#sequence.drop(extended)) return false;
    if (svc && !this.#includes(packet, svc) && this.#sequence.drop(extended)) return false;
    // A padding-only packet is not forwarded, unless a sequence number was already left free for it.
    if (view.payloadLength === 0 && this.#sequence.drop(extended)) return false;
    const late = this.#sequence.isLate(extended);
    const outgoing = this.#sequence.forward(extended);
    if (outgoing < 0) return false;
    if (!late) this.#frameTimestamp = view.timestamp;
    target.ssrc = this.ssrc;
    target.sequenceNumber = outgoing & 0xffff;
    target.timestamp = this.#timestamp.map(view.timestamp, nowMs, late);
    target.payloadType = this.#payloadType;
    // RFC 3551 §4.1: the marker after a silence lets the jitter buffer adapt without a click.
    target.marker = view.marker || (entered && this.#codec === "audio");
    // The last packet of the highest forwarded layer ends the frame.
    if (svc?.endsFrame && svc.spatial === this.#spatial) target.marker = true;
    target.originalSequenceNumber = -1;
    target.sentAtMs = nowMs;
    target.prefixLength = this.#codec === "vp8" ? this.#rewriteVp8(packet, target, late) : 0;
    this.#packets += 1;
    this.#octets += view.payloadLength;
    return true;
  }

  /** Whether the packet belongs to a temporal layer that is left out. */
  #omits({ view, extended, keyframe, vp8 }: SourcePacket, { layer, top, entersUpTo }: TemporalPosition): boolean {
    if (this.#sequence.isLate(extended)) return layer > this.#temporal;
    if (view.timestamp === this.#frameTimestamp) return layer > this.#temporal;
    this.#frameTimestamp = view.timestamp;
    const target = this.#targetTemporal;
    if (keyframe || target <= this.#temporal) this.#temporal = target;
    else if (layer <= this.#temporal || entersUpTo === layer)
      this.#temporal = Math.max(this.#temporal, Math.min(entersUpTo, target));
    if (this.#temporal >= top && target >= top) this.#temporal = target;
    const omits = layer > this.#temporal;
    if (omits && this.#codec === "vp8" && vp8.pictureId >= 0) this.#vp8.omit(extended);
    return omits;
  }

  /** Whether the packet belongs to a forwarded spatial layer. */
  #includes({ view, extended, keyframe }: SourcePacket, { spatial }: SvcPosition): boolean {
    if (!this.#sequence.isLate(extended)) {
      const isNext = keyframe || (this.#targetSpatial < this.#spatial && view.timestamp !== this.#pictureTimestamp);
      if (isNext && this.#spatial !== this.#targetSpatial) {
        this.#spatial = this.#targetSpatial;
        this.switches += 1;
      }
      this.#pictureTimestamp = view.timestamp;
    }
    return spatial <= this.#spatial;
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
    this.#spatial = this.#targetSpatial;
    this.#temporal = this.#targetTemporal;
    this.#previous = layer;
    this.#otherSource = false;
    this.switches += 1;
  }

  #rewriteVp8(packet: SourcePacket, target: FanOutTarget, late: boolean): number {
    const { view, vp8, extended } = packet;
    if (view.payloadLength === 0 || vp8.length === 0) return 0;
    return vp8.rewrite(view.data, view.payloadOffset, target.prefix, this.#vp8.map(vp8, late, extended));
  }
}
