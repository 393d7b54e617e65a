/** A received packet, parsed once for all subscribers. */

import type { Vp8Descriptor } from "../wire/codec/vp8.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";

export interface SourcePacket {
  view: RtpView;
  layer: number;
  /** The sequence number of the layer, unwrapped. */
  extended: number;
  /** The packet begins a keyframe; always true for audio. */
  keyframe: boolean;
  /** The descriptor of this packet when the codec is VP8. */
  vp8: Vp8Descriptor;
}
