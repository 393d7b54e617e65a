/**
 * The temporal layers of one stream. A subscriber may get only the lower ones, and each layer that is left out halves the frame
 * rate.
 */
import type { TemporalPosition } from "../forwarding/source-packet.ts";
import type { MediaCodec } from "../wire/codec/keyframe.ts";
import type { Vp8Descriptor } from "../wire/codec/vp8.ts";
import { readVp9Layers } from "../wire/codec/vp9.ts";
import { DependencyDescriptor } from "../wire/rtp/dependency-descriptor.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";

const MAX_LAYERS = 4;
/** By the number of temporal layers: the share of the bitrate that encoders give to the lowest one, the lowest two, and so on. */
const SHARES: readonly (readonly number[])[] = [[], [1], [0.6, 1], [0.4, 0.6, 1], [0.25, 0.4, 0.6, 1]];
/** The tolerance for encoders, whose frame rate varies. */
const FPS_TOLERANCE = 1.1;
/** The length of a descriptor that contains only the number of the frame's template. */
const SHORT_DESCRIPTOR_BYTES = 3;

export class TemporalLayers {
  /** 1 for a stream without temporal layers, and while their number is unknown. */
  count = 1;
  readonly #descriptor = new DependencyDescriptor();
  readonly #position: TemporalPosition = { layer: 0, top: 0, entersUpTo: 0 };

  /** For each layer, its share of the stream's bitrate together with the layers below it. */
  get shares(): readonly number[] {
    return SHARES[this.count] ?? [];
  }

  /** Returns the highest layer with which a stream of `fps` frames a second stays within `maxFps`. */
  highestWithin(maxFps: number, fps: number): number {
    let layer = this.count - 1;
    while (layer > 0 && fps / 2 ** (this.count - 1 - layer) > maxFps * FPS_TOLERANCE) layer -= 1;
    return layer;
  }

  /**
   * Returns the layer of the packet, which is valid until the next call; null if it is unknown. If the layer is not needed now,
   * only the structure in a dependency descriptor is read, which arrives with keyframes.
   */
  read(view: RtpView, codec: MediaCodec, descriptorId: number, vp8: Vp8Descriptor, isNeeded: boolean) {
    const position = this.#position;
    if (this.#findDescriptor(view, descriptorId)) {
      if (!isNeeded && view.elementLength <= SHORT_DESCRIPTOR_BYTES) return null;
      const descriptor = this.#descriptor;
      if (!descriptor.read(view.data, view.elementOffset, view.elementLength)) return null;
      this.count = descriptor.temporalLayers;
      position.layer = descriptor.temporal;
      position.entersUpTo = descriptor.entersUpTo;
    } else if (codec === "vp8" && vp8.temporalLayer >= 0) {
      this.count = Math.max(this.count, vp8.temporalLayer + 1);
      position.layer = vp8.temporalLayer;
      position.entersUpTo = vp8.layerSync ? vp8.temporalLayer : 0;
    } else if (codec === "vp9") {
      const layers = readVp9Layers(view.data, view.payloadOffset, view.payloadLength);
      if (!layers) return null;
      this.count = Math.max(this.count, Math.min(MAX_LAYERS, layers.temporal + 1));
      position.layer = layers.temporal;
      position.entersUpTo = layers.switchesUp ? MAX_LAYERS : 0;
    } else return null;
    position.top = this.count - 1;
    return this.count > 1 ? position : null;
  }

  #findDescriptor(view: RtpView, id: number): boolean {
    if (id === 0) return false;
    for (let at = view.extensionOffset; view.nextExtension(at); at = view.elementOffset + view.elementLength)
      if (view.elementId === id) return true;
    return false;
  }
}
