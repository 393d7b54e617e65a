// Chooses the layer of each subscription of one subscriber within its bandwidth: audio first, then by priority, screens before
// cameras. Every video gets its lowest layer before any gets a higher one, and a video that does not fit is paused.

export const NO_LAYER = -1;

export interface LayerFigures {
  /** Measured bits/s; 0 when nothing arrives. */
  bitrate: number;
  /** Measured only briefly, so it counts with at least the nominal bitrate. */
  isNew?: boolean;
  /** 0 when not known yet. */
  height: number;
  /** Packets arrive, so the publisher encodes it. */
  live: boolean;
}

export interface LayerRequest {
  id: string;
  kind: "audio" | "screen" | "camera";
  /** Lowest first. Audio has one. */
  layers: readonly LayerFigures[];
  /** The cumulative shares of the lowest live layer's bitrate, by temporal layer; the last one is 1. */
  temporalShares?: readonly number[] | undefined;
  /** The height at which the subscriber shows the video; larger layers are not needed. */
  maxHeight?: number | undefined;
  /** The highest layer that the subscriber allows. */
  maxLayer?: number | undefined;
  paused: boolean;
  /** Subscriptions with a higher priority are served first. */
  priority: number;
}

export type LayerReason = "optimal" | "bandwidth" | "paused" | "unavailable";

export interface LayerDecision {
  id: string;
  /** NO_LAYER when nothing is sent. */
  layer: number;
  /** The layer with unlimited bandwidth, which the publisher has to encode. */
  desired: number;
  reason: LayerReason;
  /** The highest temporal layer to send of `layer`, if not all of them fit. */
  temporal?: number;
}

interface LayerPlan {
  decisions: LayerDecision[];
  /** Bits/s of the chosen layers. */
  used: number;
  /** How many videos are sent, whatever their layers. */
  videos: number;
  /** The budget at which one more step would fit; undefined when every subscription has its desired layer. */
  nextStep: number | undefined;
  /** The budget at which every subscription would have its desired layer. */
  wanted: number;
}

/** An upgrade needs spare budget and keeping a layer does not, so a budget near the boundary does not make the layer flicker. */
const UPGRADE_MARGIN = 1.15;
const STAY_MARGIN = 0.97;
/** The only video is paused when it clearly does not fit: a video that comes and goes is worse. */
const LAST_VIDEO_MARGIN = 0.6;
/** The first video is sent as soon as it may fit, because the estimate of a narrow path is below its capacity. */
const FIRST_VIDEO_MARGIN = 0.85;
const UPGRADE_HOLD_MS = 2_000;
/** Shorter for a paused video, because no video is worse than one that may have to be paused again. */
const RETURN_HOLD_MS = 500;
/** Assumed until a layer has been measured. */
const NOMINAL_AUDIO = 40_000;
const NOMINAL_VIDEO = [150_000, 500_000, 1_500_000] as const;
/** A layer that needs hardly more than the one below it is held back by the publisher's uplink, and will soon need more. */
const MIN_STEP = 1.5;

interface Candidate {
  request: LayerRequest;
  /** Live layers up to the desired one, lowest first. */
  usable: number[];
  desired: number;
  /** The position in `usable`; −1 when nothing is chosen yet. */
  step: number;
  /** The highest temporal layer of the lowest layer, if all of it does not fit. */
  temporal: number;
  wasReduced: boolean;
  before: number;
  /** A layer is being sent now. */
  wasSent: boolean;
  mayRise: boolean;
}

export class LayerChooser {
  readonly #before = new Map<string, { layer: number; isReduced: boolean; loweredAtMs: number }>();

  forget(id: string): void {
    this.#before.delete(id);
  }

  choose(requests: readonly LayerRequest[], budget: number, nowMs: number): LayerPlan {
    const candidates = requests.map((request) => this.#candidate(request, nowMs));
    const inOrder = candidates.filter((c) => c.usable.length > 0).sort(byRank);
    let used = 0;
    let charged = 0;
    let nextStep: number | undefined;
    let videos = 0;
    const raise = (candidate: Candidate): boolean => {
      if (candidate.step + 1 >= candidate.usable.length) return false;
      const now = candidate.step < 0 ? 0 : bitrateOf(candidate.request, candidate.usable[candidate.step] as number);
      const layer = candidate.usable[candidate.step + 1] as number;
      const cost = Math.max(0, bitrateOf(candidate.request, layer) - now);
      const rises = layer > candidate.before;
      const isAudio = candidate.request.kind === "audio";
      const charge = cost * (isAudio ? 1 : rises ? UPGRADE_MARGIN : STAY_MARGIN);
      const isFirst = videos === 0 && candidate.step < 0;
      const isKept = isFirst && candidate.wasSent && layer <= candidate.before;
      const needed = isKept
        ? charged + cost * LAST_VIDEO_MARGIN
        : isFirst
          ? (charged + cost) * FIRST_VIDEO_MARGIN
          : charged + charge;
      const fits = isAudio || (needed <= budget && (!rises || candidate.mayRise));
      if (!fits) {
        nextStep ??= charged + cost * UPGRADE_MARGIN;
        return false;
      }
      if (candidate.step < 0 && !isAudio) videos += 1;
      candidate.step += 1;
      used += cost;
      charged += charge;
      return true;
    };
    for (const candidate of inOrder) raise(candidate);
    for (const group of groupByRank(inOrder)) {
      let rising = group.filter((c) => c.step >= 0);
      while (rising.length > 0) rising = rising.filter(raise);
    }
    for (const candidate of inOrder) {
      if (candidate.step >= 0 || !(candidate.mayRise || candidate.wasSent || candidate.wasReduced)) continue;
      const bitrate = bitrateOf(candidate.request, candidate.usable[0] as number);
      const staying = candidate.wasReduced ? STAY_MARGIN : UPGRADE_MARGIN;
      const margin = videos === 0 ? LAST_VIDEO_MARGIN : staying;
      const shares = candidate.request.temporalShares?.slice(0, -1) ?? [];
      candidate.temporal = shares.findLastIndex((share) => charged + bitrate * share * margin <= budget);
      if (candidate.temporal < 0) continue;
      const cost = bitrate * (shares[candidate.temporal] as number);
      videos += 1;
      used += cost;
      charged += cost * margin;
    }
    const wanted = inOrder.reduce((sum, { request, usable }) => sum + bitrateOf(request, usable.at(-1) as number), 0);
    const decisions = candidates.map((candidate) => this.#decide(candidate, nowMs));
    return { decisions, used, videos, nextStep, wanted: wanted * UPGRADE_MARGIN };
  }

  #candidate(request: LayerRequest, nowMs: number): Candidate {
    const known = this.#before.get(request.id);
    const desired = request.paused ? NO_LAYER : desiredLayer(request);
    const live = request.layers.map((_, i) => i).filter((i) => request.layers[i]?.live);
    let usable = desired === NO_LAYER ? [] : live.filter((i) => i <= desired);
    // If every layer is larger than desired, a larger one is better than none.
    if (desired !== NO_LAYER && usable.length === 0) usable = live.slice(0, 1);
    return {
      request,
      usable,
      desired,
      step: -1,
      temporal: -1,
      wasReduced: known?.isReduced ?? false,
      before: known?.layer ?? Number.POSITIVE_INFINITY,
      wasSent: known !== undefined && known.layer !== NO_LAYER,
      mayRise: known === undefined || nowMs - known.loweredAtMs >= holdMs(known.layer),
    };
  }

  #decide({ request, usable, desired, step, temporal }: Candidate, nowMs: number): LayerDecision {
    const layer = step < 0 ? NO_LAYER : (usable[step] as number);
    const known = this.#before.get(request.id);
    const reason: LayerReason =
      request.paused || desired === NO_LAYER
        ? "paused"
        : usable.length === 0
          ? "unavailable"
          : step + 1 < usable.length
            ? "bandwidth"
            : "optimal";
    const lowered = known !== undefined && layer < known.layer && reason === "bandwidth";
    const loweredAtMs = lowered ? nowMs : (known?.loweredAtMs ?? Number.NEGATIVE_INFINITY);
    if (request.paused) this.#before.delete(request.id);
    else this.#before.set(request.id, { layer, isReduced: temporal >= 0, loweredAtMs });
    // A video with temporal layers left out counts as paused, so all of them return by the rules for a paused video.
    if (layer === NO_LAYER && temporal >= 0)
      return { id: request.id, layer: usable[0] as number, desired, reason, temporal };
    return { id: request.id, layer, desired, reason };
  }
}

/** A layer this much larger than the tile still fits it, because encoders round. */
const HEIGHT_TOLERANCE = 1.1;

/** The highest layer that is not larger than the subscriber's tile, or the lowest. */
function desiredLayer({ layers, maxHeight, maxLayer }: LayerRequest): number {
  const top = Math.min(layers.length - 1, maxLayer ?? layers.length - 1);
  if (maxHeight === undefined) return top;
  if (maxHeight <= 0) return NO_LAYER;
  for (let i = top; i > 0; i--) if ((layers[i]?.height ?? 0) <= maxHeight * HEIGHT_TOLERANCE) return i;
  return 0;
}

/** The bitrate of all audio and the lowest layer of the video that is served first. */
export function firstFrameBitrate(requests: readonly LayerRequest[]): number {
  let audio = 0;
  let first: LayerRequest | undefined;
  for (const request of requests) {
    if (request.paused || lowestLive(request) < 0) continue;
    if (request.kind === "audio") audio += bitrateOf(request, 0);
    else if (first === undefined || byRequest(request, first) < 0) first = request;
  }
  return audio + (first ? bitrateOf(first, lowestLive(first)) : 0);
}

function lowestLive({ layers }: LayerRequest): number {
  return layers.findIndex(({ live }) => live);
}

function holdMs(layer: number): number {
  return layer === NO_LAYER ? RETURN_HOLD_MS : UPGRADE_HOLD_MS;
}

function bitrateOf(request: LayerRequest, layer: number): number {
  const { bitrate = 0, isNew = false } = request.layers[layer] ?? {};
  const below = request.layers[layer - 1];
  const least = below?.live ? below.bitrate * MIN_STEP : 0;
  if (bitrate > 0 && !isNew) return Math.max(bitrate, least);
  const nominal = request.kind === "audio" ? NOMINAL_AUDIO : (NOMINAL_VIDEO[layer] ?? NOMINAL_VIDEO[2]);
  return Math.max(bitrate, least, nominal);
}

const KIND_RANK = { audio: 0, screen: 1, camera: 2 } as const;

function byRank(a: Candidate, b: Candidate): number {
  return byRequest(a.request, b.request);
}

function byRequest(a: LayerRequest, b: LayerRequest): number {
  const audio = Number(b.kind === "audio") - Number(a.kind === "audio");
  if (audio !== 0) return audio;
  if (a.priority !== b.priority) return b.priority - a.priority;
  return KIND_RANK[a.kind] - KIND_RANK[b.kind];
}

function groupByRank(inOrder: readonly Candidate[]): Candidate[][] {
  const groups: Candidate[][] = [];
  for (const candidate of inOrder) {
    const last = groups.at(-1);
    if (last?.[0] !== undefined && byRank(last[0], candidate) === 0) last.push(candidate);
    else groups.push([candidate]);
  }
  return groups;
}
