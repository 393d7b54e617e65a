/** A received packet, with what its publication found out about it once for all viewers. */

import type { Vp8Descriptor } from "../wire/codec/vp8.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";

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
