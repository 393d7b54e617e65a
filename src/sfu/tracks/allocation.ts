/** Shares a subscriber's bandwidth among its subscriptions, and probes for more. */
import type { DeliveryReason } from "../../protocol/signaling.ts";
import { type LayerReason, type LayerRequest, NO_LAYER } from "../bandwidth/layer-chooser.ts";
import { BandwidthPlanner } from "../bandwidth/planner.ts";
import type { ProbePlan } from "../bandwidth/probe.ts";
import { ALL_TEMPORAL } from "../forwarding/forwarder.ts";
import type { UdpPort } from "../transport/udp.ts";
import type { RtcpBytes } from "../wire/rtcp/rtcp.ts";
import type { SentPackets, TransportFeedback } from "../wire/rtcp/twcc-feedback.ts";
import type { Publication } from "./publication.ts";
import { LAYER_NAMES } from "./published-layer.ts";
import type { SelectableLayer } from "./spatial-layers.ts";
import type { Subscription } from "./subscription.ts";

/** Assumed until a keyframe shows the height. */
const NOMINAL_HEIGHTS = [180, 360, 720] as const;

const FEEDBACK_TIMEOUT_MS = 2_000;

const REASONS: Record<LayerReason, DeliveryReason> = {
  optimal: "requested",
  paused: "requested",
  bandwidth: "bandwidth",
  unavailable: "source",
};

/** Between two reports there may be no numbered packets, so the last loss stays valid this long. */
const OWN_LOSS_HOLDS_MS = 15_000;

export class Allocation {
  readonly #planner = new BandwidthPlanner();
  readonly #feedback: TransportFeedback;
  readonly #sent: SentPackets;
  #ownLoss: { ratio: number; atMs: number } | null = null;
  readonly #prober: Prober;
  #feedbackMs = Number.NEGATIVE_INFINITY;
  #live = 0;

  constructor(sent: SentPackets, host: { udp: UdpPort; transportFeedback: TransportFeedback; now(): number }) {
    this.#sent = sent;
    this.#feedback = host.transportFeedback;
    this.#prober = new Prober(sent, host.udp, host.now);
  }

  get estimate(): number {
    return Math.round(Math.min(this.#planner.estimator.estimate, this.#planner.limitBps));
  }

  set limitBps(bitsPerSecond: number) {
    this.#planner.limitBps = bitsPerSecond;
  }

  queueMs(nowMs: number): number {
    return this.#planner.estimator.describe(nowMs).queueMs;
  }

  onRemb(bitrate: number, nowMs: number): void {
    this.#planner.estimator.onRemb(bitrate, nowMs);
  }

  onTransportFeedback({ data, start, end }: RtcpBytes, nowMs: number): void {
    if (!this.#feedback.parse(data, start, end)) return;
    this.#feedbackMs = nowMs;
    this.#planner.estimator.onFeedback(this.#feedback, this.#sent, nowMs);
  }

  /** Loss from receiver reports is ignored while transport-wide feedback comes, which has the loss itself. */
  onLoss(ratio: number, nowMs: number): void {
    if (nowMs - this.#feedbackMs > FEEDBACK_TIMEOUT_MS) this.#planner.estimator.onLoss(ratio, nowMs);
  }

  /**
   * The loss on the subscriber's own path, 0 … 1, from transport-wide feedback. Receiver reports include loss on the publisher's
   * path, so they are used only where nothing else is known.
   */
  ownLoss(reported: number, nowMs: number): number {
    const ratio = this.#planner.estimator.takeLoss();
    if (ratio !== null) this.#ownLoss = { ratio, atMs: nowMs };
    return this.#ownLoss && nowMs - this.#ownLoss.atMs <= OWN_LOSS_HOLDS_MS ? this.#ownLoss.ratio : reported;
  }

  forget(trackId: string): void {
    this.#planner.forget(trackId);
  }

  close(): void {
    this.#prober.stop();
  }

  takeRepair(bytes: number, nowMs: number): boolean {
    return this.#planner.takeRepair(bytes, nowMs);
  }

  /** Is true when the path carries less than is sent, or enough for more. */
  isReallocationDue(nowMs: number): boolean {
    return this.#planner.isDue(nowMs);
  }

  isDue(subscriptions: ReadonlyMap<string, Subscription>, nowMs: number): boolean {
    return this.#planner.isDue(nowMs) || liveLayers(subscriptions, nowMs) !== this.#live;
  }

  run(subscriptions: ReadonlyMap<string, Subscription>, nowMs: number): void {
    this.#live = liveLayers(subscriptions, nowMs);
    const requests: LayerRequest[] = [];
    const flowing: Subscription[] = [];
    const options = { hasTransportSequence: false, canProbe: false, willProbe: false };
    for (const subscription of subscriptions.values()) {
      const { section } = subscription;
      requests.push(requestOf(subscription, nowMs));
      if (section.usesTransportSequence) options.hasTransportSequence = true;
      if (!section.canProbe) continue;
      options.willProbe = true;
      if (subscription.currentLayer !== null) flowing.push(subscription);
    }
    options.canProbe = flowing.length > 0;
    const { decisions, stopsImmediately, defersKeyframes, probe } = this.#planner.plan(requests, options, nowMs);
    for (const { id, layer, desired, reason, temporal = ALL_TEMPORAL } of decisions) {
      const subscription = subscriptions.get(id);
      if (!subscription) continue;
      const { choices: layers } = subscription.publication;
      subscription.desiredLayer = desired === NO_LAYER ? null : (layers[desired]?.index ?? null);
      const chosen = layer === NO_LAYER ? null : (layers[layer] ?? null);
      if (stopsImmediately && chosen) subscription.stopAbove(chosen);
      if (defersKeyframes && chosen && subscription.needsKeyframeFor(chosen)) continue;
      subscription.setLayer(chosen, REASONS[reason], nowMs, {
        temporal: Math.min(temporal, wantedTemporal(subscription, chosen)),
      });
    }
    if (probe) this.#prober.start(probe, flowing);
  }
}

function wantedTemporal({ settings }: Subscription, chosen: SelectableLayer | null): number {
  const { temporal, framesPerSecond } = chosen?.stream ?? {};
  if (settings.maxFps === null || !temporal || framesPerSecond === undefined) return ALL_TEMPORAL;
  const highest = temporal.highestWithin(settings.maxFps, framesPerSecond);
  return highest === temporal.count - 1 ? ALL_TEMPORAL : highest;
}

/** A hash that changes whenever a layer of a subscribed track starts or stops. */
function liveLayers(subscriptions: ReadonlyMap<string, Subscription>, nowMs: number): number {
  let sum = 0;
  for (const { publication } of subscriptions.values()) {
    sum = (Math.imul(sum, 31) + publication.liveMask(nowMs)) | 0;
  }
  return sum;
}

function requestOf({ publication, settings, section }: Subscription, nowMs: number): LayerRequest {
  // Without the dependency descriptor a decoder of AV1 shows one spatial layer only.
  const needsDescriptor = publication.mediaCodec === "av1" && !section.readsDependencies;
  const isLayered = publication.choices !== publication.layers;
  const choices = needsDescriptor && isLayered ? publication.choices.slice(0, 1) : publication.choices;
  const live = publication.liveMask(nowMs);
  return {
    id: publication.trackId,
    kind: kindOf(publication),
    layers: choices.map((layer) => ({
      bitrate: layer.rate.bitsPerSecond(nowMs),
      isNew: layer.rate.isNew(nowMs),
      height: heightOf(publication, layer),
      live: (live & (1 << layer.index)) !== 0,
    })),
    temporalShares: publication.choices.find(({ index }) => live & (1 << index))?.stream.temporal.shares,
    maxHeight: settings.maxHeight ?? undefined,
    maxLayer: settings.layer === "auto" ? undefined : positionOf(publication, LAYER_NAMES.indexOf(settings.layer)),
    paused: settings.paused || publication.muted || !publication.audible,
    priority: settings.priority,
  };
}

function kindOf(publication: Publication): LayerRequest["kind"] {
  if (publication.kind === "audio") return "audio";
  return publication.source === "screenShare" ? "screen" : "camera";
}

function heightOf(publication: Publication, layer: SelectableLayer): number {
  if (layer.height > 0 || publication.choices.length === 1) return layer.height;
  return NOMINAL_HEIGHTS[layer.index] ?? 0;
}

/** The position of the best layer not above `index`, or of the lowest. */
function positionOf(publication: Publication, index: number): number {
  const position = publication.choices.findLastIndex((layer) => layer.index <= index);
  return Math.max(0, position);
}

const STEP_MS = 5;
/** The receive loop stays awake this long, because late steps would distort the measured rate. */
const AWAKE_MS = 50;

/** Sends a probe: a short burst of packets that the subscriber already has, over RTX, whose arrival shows the rate. */
export class Prober {
  readonly #sent: SentPackets;
  readonly #udp: UdpPort;
  readonly #now: () => number;
  #timer: Timer | null = null;

  constructor(sent: SentPackets, udp: UdpPort, now: () => number) {
    this.#sent = sent;
    this.#udp = udp;
    this.#now = now;
  }

  /** Repeats recent packets of `sources`. */
  start(plan: ProbePlan, sources: readonly Subscription[]): void {
    if (sources.length === 0 || this.#timer) return;
    const startedMs = this.#now();
    const totalBytes = plan.bytes;
    let bytes = 0;
    let packets = 0;
    const step = () => {
      const nowMs = this.#now();
      this.#udp.receiveLoop?.stayAwake(nowMs, AWAKE_MS);
      const due = Math.min(totalBytes, ((nowMs - startedMs + STEP_MS) / plan.durationMs) * totalBytes);
      let misses = 0;
      while (bytes < due && misses < sources.length) {
        const source = sources[packets % sources.length];
        const size = source?.section.probe(this.#sent, plan.id, this.#udp, nowMs) ?? 0;
        if (size === 0) misses++;
        bytes += size;
        packets++;
      }
      if (bytes >= totalBytes || misses > 0 || nowMs - startedMs > plan.durationMs * 3) this.stop();
    };
    this.#timer = setInterval(step, STEP_MS);
    step();
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }
}
