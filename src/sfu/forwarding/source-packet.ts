/** A received packet, parsed once for all subscribers. */

import type { Vp8Descriptor } from "../wire/codec/vp8.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";

/** The place of a packet in a stream of several spatial layers. */
export type SvcPosition = {
  spatial: number;
  /** The highest layer of the stream. */
  top: number;
  /** The packet is the last one of its layer's frame. */
  endsFrame: boolean;
};

/** The place of a packet in a stream of several temporal layers. */
export type TemporalPosition = {
  layer: number;
  /** The highest layer of the stream. */
  top: number;
  /** The highest temporal layer that a subscriber can switch up to with this packet's frame. */
  entersUpTo: number;
};

export interface SourcePacket {
  view: RtpView;
  layer: number;
  /** The sequence number of the layer, unwrapped. */
  extended: number;
  /** The packet begins a keyframe; always true for audio. */
  keyframe: boolean;
  /** The descriptor of this packet when the codec is VP8. */
  vp8: Vp8Descriptor;
  /** Null, or absent, for a stream without spatial layers. */
  svc?: SvcPosition | null;
  /** Null, or absent, for a stream without temporal layers, and when no subscriber leaves any out. */
  temporal?: TemporalPosition | null;
}
