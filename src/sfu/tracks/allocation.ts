/** Shares a viewer's bandwidth among its subscriptions, and finds out whether there is more of it. */
import type { DeliveryReason } from "../../protocol/signaling.ts";
import { BandwidthEstimator } from "../bandwidth/bandwidth-estimator.ts";
import { LayerChooser, type LayerReason, type LayerRequest, leastBitrate, NO_LAYER } from "../bandwidth/layers.ts";
import type { SentPackets, TransportFeedback } from "../rtcp/twcc-feedback.ts";
import type { UdpPort } from "../transport/udp.ts";
import type { PublishedLayer } from "./layer.ts";
import { Prober } from "./prober.ts";
import type { Publication } from "./publication.ts";
import { layerNumber, type Subscription } from "./subscription.ts";

/** What layers usually measure, until a keyframe tells. */
const NOMINAL_HEIGHTS = [180, 360, 720] as const;

const FEEDBACK_TIMEOUT_MS = 2_000;
/** Without any occasion: rates drift, and more may fit than before. */
const REVIEW_INTERVAL_MS = 500;

const REASONS: Record<LayerReason, DeliveryReason> = {
  optimal: "requested",
  paused: "requested",
  bandwidth: "bandwidth",
  unavailable: "source",
};

export class Allocation {
  readonly #estimator = new BandwidthEstimator();
  readonly #chooser = new LayerChooser();
  readonly #feedback: TransportFeedback;
  readonly #sent: SentPackets;
  readonly #prober: Prober;
  #feedbackMs = Number.NEGATIVE_INFINITY;
  #dueMs = 0;
  #used = 0;
  /** Bits/s of everybody's lowest layer. */
  #least = 0;
  /** What is sent has transport-wide numbers, so the viewer reports on each. */
  #numbered = false;
  #live = 0;

  constructor(sent: SentPackets, host: { udp: UdpPort; transportFeedback: TransportFeedback; now(): number }) {
    this.#sent = sent;
    this.#feedback = host.transportFeedback;
    this.#prober = new Prober(sent, host.udp, host.now);
  }

  get estimate(): number {
    return Math.round(this.#estimator.estimate);
  }

  onRemb(bitrate: number, nowMs: number): void {
    this.#estimator.onRemb(bitrate, nowMs);
  }

  onTransportFeedback(data: Uint8Array, nowMs: number): void {
    if (!this.#feedback.parse(data)) return;
    this.#feedbackMs = nowMs;
    this.#estimator.onFeedback(this.#feedback, this.#sent, nowMs);
  }

  /** Transport-wide feedback counts losses itself. */
  onLoss(ratio: number, nowMs: number): void {
    if (nowMs - this.#feedbackMs > FEEDBACK_TIMEOUT_MS) this.#estimator.onLoss(ratio, nowMs);
  }

  forget(trackId: string): void {
    this.#chooser.forget(trackId);
  }

  close(): void {
    this.#prober.stop();
  }

  /** Viewers are many and mostly nothing changes: a new plan takes an occasion. */
  isDue(subscriptions: ReadonlyMap<string, Subscription>, nowMs: number): boolean {
    if (nowMs >= this.#dueMs || this.#estimator.budget(nowMs, this.#least, this.#numbered) < this.#used) return true;
    return liveLayers(subscriptions, nowMs) !== this.#live;
  }

  run(subscriptions: ReadonlyMap<string, Subscription>, nowMs: number): void {
    this.#dueMs = nowMs + REVIEW_INTERVAL_MS;
    this.#live = liveLayers(subscriptions, nowMs);
    const requests: LayerRequest[] = [];
    for (const subscription of subscriptions.values()) requests.push(requestOf(subscription, nowMs));
    this.#least = leastBitrate(requests);
    this.#numbered = [...subscriptions.values()].some(({ section }) => section.canProbe);
    const budget = this.#estimator.budget(nowMs, this.#least, this.#numbered);
    const plan = this.#chooser.choose(requests, budget, nowMs);
    this.#used = plan.used;
    for (const { id, layer, desired, reason } of plan.decisions) {
      const subscription = subscriptions.get(id);
      if (!subscription) continue;
      const { layers } = subscription.publication;
      subscription.desiredLayer = desired === NO_LAYER ? null : (layers[desired]?.index ?? null);
      subscription.setLayer(layer === NO_LAYER ? null : (layers[layer] ?? null), REASONS[reason], nowMs);
    }
    if (plan.nextStep === undefined) return;
    const flowing = [...subscriptions.values()].filter(
      ({ section, currentLayer }) => section.canProbe && currentLayer !== null,
    );
    const probe = this.#estimator.requestUpgrade(plan.nextStep, nowMs, flowing.length > 0);
    if (probe) this.#prober.start(probe, flowing);
  }
}

/** Changes whenever a layer of any subscribed track starts or stops. */
function liveLayers(subscriptions: ReadonlyMap<string, Subscription>, nowMs: number): number {
  let sum = 0;
  for (const { publication } of subscriptions.values()) {
    sum = (Math.imul(sum, 31) + publication.liveMask(nowMs)) | 0;
  }
  return sum;
}

function requestOf({ publication, wish }: Subscription, nowMs: number): LayerRequest {
  const live = publication.liveMask(nowMs);
  return {
    id: publication.trackId,
    kind: kindOf(publication),
    layers: publication.layers.map((layer) => ({
      bitrate: layer.rate.bitsPerSecond(nowMs),
      height: heightOf(publication, layer),
      live: (live & (1 << layer.index)) !== 0,
    })),
    ...(wish.maxHeight === null ? {} : { maxHeight: wish.maxHeight }),
    ...(wish.layer === "auto" ? {} : { maxLayer: positionOf(publication, layerNumber(wish.layer)) }),
    paused: wish.paused || publication.muted || !publication.audible,
    priority: wish.priority,
  };
}

function kindOf(publication: Publication): LayerRequest["kind"] {
  if (publication.kind === "audio") return "audio";
  return publication.source === "screenShare" ? "screen" : "camera";
}

function heightOf(publication: Publication, layer: PublishedLayer): number {
  if (layer.height > 0 || !publication.isSimulcast) return layer.height;
  return NOMINAL_HEIGHTS[layer.index] ?? 0;
}

/** The best layer not above `index`, as a position; the lowest when all are above. */
function positionOf(publication: Publication, index: number): number {
  const position = publication.layers.findLastIndex((layer) => layer.index <= index);
  return Math.max(0, position);
}
