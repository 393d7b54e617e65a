/**
 * Where a keyframe begins, among its packets. Of most codecs the packet says it; an H.264 picture may have its parameter sets
 * in packets of their own and be cut into slices, each of which looks like a beginning. Who begins at a later one of them
 * cannot decode the picture.
 */

import { hasH264Parameters, startsH264Keyframe } from "../wire/codec/h264.ts";
import { type MediaCodec, startsKeyframe } from "../wire/codec/keyframe.ts";
import type { Vp8Descriptor } from "../wire/codec/vp8.ts";
import type { PacketRing } from "../wire/rtp/packet-ring.ts";
import { RtpView } from "../wire/rtp/rtp.ts";

/** Delimiters, messages and slices that may stand before a slice; more make no picture that is decoded in time. */
const MAX_LOOK_BACK = 32;

export class KeyframeStart {
  readonly #earlier = new RtpView();

  /** `first`: the number the stream began with. The packet is in the ring. */
  isAt(
    codec: MediaCodec,
    view: RtpView,
    extended: number,
    { ring, first, vp8 }: { ring: PacketRing; first: number; vp8: Vp8Descriptor },
  ): boolean {
    if (!startsKeyframe(codec, view, vp8)) return false;
    if (codec !== "h264" || hasH264Parameters(view.data, view.payloadOffset, view.payloadLength)) return true;
    return this.#isFirstOfPicture(view, extended, ring, first);
  }

  /** A slice begins the picture when everything before it is known, and neither a slice nor a parameter set of the same. */
  #isFirstOfPicture(view: RtpView, extended: number, ring: PacketRing, first: number): boolean {
    const earlier = this.#earlier;
    for (let at = extended - 1; at > extended - MAX_LOOK_BACK; at--) {
      if (at < first) return true;
      if (!ring.peek(at, earlier)) return false;
      if (earlier.timestamp !== view.timestamp) return true;
      if (startsH264Keyframe(earlier.data, earlier.payloadOffset, earlier.payloadLength)) return false;
    }
    return false;
  }
}
