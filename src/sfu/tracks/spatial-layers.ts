/** The spatial layers of one stream (SVC): subscribers get the lowest of them, as many as fit. */
import { LayerRate } from "../bandwidth/rate-meter.ts";
import type { SvcPosition } from "../forwarding/source-packet.ts";
import type { MediaCodec } from "../wire/codec/keyframe.ts";
import { readVp9Layers } from "../wire/codec/vp9.ts";
import { DependencyDescriptor } from "../wire/rtp/dependency-descriptor.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";
import type { PublishedLayer } from "./published-layer.ts";

/** The API has three names for layers. */
const MAX_LAYERS = 3;
/** If nothing of a layer arrives for this long, its encoder has stopped it. */
const SILENCE_MS = 1_000;

/** What a subscriber can be sent: one simulcast stream, or the spatial layers of a stream up to one of them. */
export interface SelectableLayer {
  readonly index: number;
  readonly stream: PublishedLayer;
  /** The highest spatial layer that is sent; infinite for a whole stream. */
  readonly spatial: number;
  readonly rate: LayerRate;
  /** 0 when it is unknown. */
  readonly height: number;
  readonly lastFrameMs: number;
  isLive(nowMs: number, newestMs: number): boolean;
}

class SpatialLayer implements SelectableLayer {
  readonly rate = new LayerRate();
  height = 0;
  lastFrameMs = 0;

  constructor(
    readonly stream: PublishedLayer,
    readonly index: number,
  ) {}

  get spatial(): number {
    return this.index;
  }

  isLive(nowMs: number, newestMs: number): boolean {
    return this.stream.isLive(nowMs, newestMs) && nowMs - this.lastFrameMs < SILENCE_MS;
  }
}

export class SpatialLayers {
  /** Lowest first; empty unless the stream has several. */
  choices: readonly SelectableLayer[] = [];
  #layers: SpatialLayer[] = [];
  readonly #stream: PublishedLayer;
  readonly #descriptor = new DependencyDescriptor();
  readonly #position: SvcPosition = { spatial: 0, top: 0, endsFrame: false };

  constructor(stream: PublishedLayer) {
    this.#stream = stream;
  }

  /** Returns the layer of the packet, which is valid until the next call; null for a stream with one layer. */
  read(view: RtpView, codec: MediaCodec, descriptorId: number): SvcPosition | null {
    const position = this.#position;
    if (this.#hasDescriptor(view, descriptorId)) {
      const { spatial, endsFrame, spatialLayers, heights } = this.#descriptor;
      this.#resize(spatialLayers, heights);
      position.spatial = spatial;
      position.endsFrame = endsFrame;
    } else {
      const layers = codec === "vp9" ? readVp9Layers(view.data, view.payloadOffset, view.payloadLength) : null;
      if (!layers) return null;
      if (layers.count > 0) this.#resize(layers.count, layers.heights);
      position.spatial = layers.spatial;
      position.endsFrame = layers.endsFrame;
    }
    position.top = this.#layers.length - 1;
    return this.#layers.length > 1 ? position : null;
  }

  /** Counts a packet that was just read. */
  received({ spatial }: SvcPosition, bytes: number, nowMs: number): void {
    for (const layer of this.#layers) if (layer.index >= spatial) layer.rate.add(bytes, nowMs);
    const own = this.#layers[spatial];
    if (own) own.lastFrameMs = nowMs;
  }

  #hasDescriptor(view: RtpView, id: number): boolean {
    if (id === 0) return false;
    for (let at = view.extensionOffset; view.nextExtension(at); at = view.elementOffset + view.elementLength)
      if (view.elementId === id) return this.#descriptor.read(view.data, view.elementOffset, view.elementLength);
    return false;
  }

  #resize(count: number, heights: readonly number[]): void {
    const layers = this.#layers;
    const wanted = Math.min(count, MAX_LAYERS);
    if (layers.length !== wanted) {
      while (layers.length < wanted) layers.push(new SpatialLayer(this.#stream, layers.length));
      layers.length = wanted;
      this.choices = wanted > 1 ? [...layers] : [];
    }
    for (const layer of layers) layer.height = heights[layer.index] ?? layer.height;
  }
}
