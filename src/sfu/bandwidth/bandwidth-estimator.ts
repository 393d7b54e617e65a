// What the path to one viewer carries, in bits/s: delay gradient and loss from transport-wide feedback (a small Google
// congestion control), or the viewer's own REMB when that is all there is. The estimate can only see what is sent, so
// going up is tried: by a probe, or by a trial.

import type { SentPackets, TransportFeedback } from "../wire/rtcp/twcc-feedback.ts";
import { Congestion, type Verdict } from "./congestion.ts";
import { LossFilter } from "./loss-filter.ts";
import { ProbeMeasurement, type ProbePlan, Trial, UpgradeSchedule } from "./probe.ts";

export interface EstimatorOptions {
  startBitrate?: number;
  minBitrate?: number;
  maxBitrate?: number;
  /** What was known at a moment: a replay begins in the middle. */
  goesOn?: { estimate: number; atMs: number };
}

const DECREASE = 0.85;
/** Sending less than this share of the estimate says nothing about the rest of it. */
const FILLED = 0.8;
const GROWTH_PER_SECOND = 1.08;
/** Beyond what arrives; the rest is for probes to find out. */
const GROWTH_HEADROOM = 1.25;
const HOLD_AFTER_DECREASE_MS = 300;
const HIGH_LOSS = 0.1;
/** Above this nothing grows. */
const LOW_LOSS = 0.05;
const FEEDBACK_TIMEOUT_MS = 2_000;
const SILENCE_MS = 1_000;
const CONGESTED_MS = 1_000;
const RETURNS = { firstMs: 1_500 };
const PROBE_HEADROOM = 1.1;
/** A probe asks for more than the next step where there is a use for it: a wide path is found in few of them. */
const PROBE_STEP = 2.5;
const LIMIT_FORGOTTEN_MS = 10_000;
/**
 * Of a path they share, those who have little of what they want ask for more twice as often as those who have all of it, and
 * these wait for so long after there was too much.
 */
const LEAST_STRETCH = 0.6;
const WAIT_OF_THE_SATISFIED_MS = 10_000;
/**
 * Where probes find nearly enough, who has less than this share of what it wants takes it for a moment, as if it were there: if
 * somebody with more shares the path, that one makes room. If nobody does, it was for nothing, and it is rarely tried again.
 */
const PUSHES_BELOW = 0.55;
const NEARLY = 0.8;
/** All of this from here on: of a narrower path a little too much is a queue that takes seconds to go. */
const WIDE = 600_000;
const PUSHES = { firstMs: 5_000, mostMs: 60_000, growth: 2 };
/** Where transport-wide feedback tells of every packet, a path nobody has heard of begins here, and probes find the rest at once. */
const START_BITRATE = 300_000;
/** Without it, it may be used up to here until it shows a limit or has had time to. */
const UNPROVEN_BITRATE = 5_000_000;
const UNPROVEN_MS = 3_000;

export class BandwidthEstimator {
  readonly #min: number;
  readonly #max: number;
  readonly #congestion = new Congestion();
  readonly #schedule = new UpgradeSchedule();
  /** Of the first picture, where there is none. */
  readonly #returns = new UpgradeSchedule(RETURNS);
  #estimate: number;
  #lastFeedbackMs = Number.NEGATIVE_INFINITY;
  #lastDecreaseMs = Number.NEGATIVE_INFINITY;
  #lastCongestedMs = Number.NEGATIVE_INFINITY;
  readonly #lossFilter = new LossFilter();
  #loss = 0;
  #lossAtMs = Number.NEGATIVE_INFINITY;
  #firstRequestMs = -1;
  #firstReportMs = -1;
  #probe: ProbeMeasurement | undefined;
  #probeId = 0;
  /** When the path last showed how little it carries. */
  #limitedMs = Number.NEGATIVE_INFINITY;
  readonly #trial = new Trial();
  readonly #pushes = new UpgradeSchedule(PUSHES);
  /** What the probe under way was asked to find. */
  #wanted = 0;

  constructor(options: EstimatorOptions = {}) {
    this.#min = options.minBitrate ?? 50_000;
    this.#max = options.maxBitrate ?? 50_000_000;
    this.#estimate = options.goesOn?.estimate ?? options.startBitrate ?? 1_000_000;
    if (options.goesOn === undefined) return;
    this.#lastFeedbackMs = options.goesOn.atMs;
    this.#firstReportMs = options.goesOn.atMs - UNPROVEN_MS;
  }

  /**
   * What may be sent now: the estimate, or more while a trial is on or nothing is known yet, and less while a queue is to
   * go. `least` is what one picture takes, which is shown before there is proof.
   */
  budget(nowMs: number, least = 0, expectsFeedback = false): number {
    if (this.#congestion.isClogged(this.#estimate, nowMs)) return 0;
    if (this.#isUnproven(nowMs)) return Math.max(this.#unproven(expectsFeedback), Math.min(least, UNPROVEN_BITRATE));
    if (this.#trial.isOn(nowMs)) return Math.max(this.#estimate, this.#trial.bitrate);
    return this.#congestion.draining(this.#estimate, least, nowMs);
  }

  #unproven(expectsFeedback: boolean): number {
    if (this.#hasFeedback) return this.#estimate;
    return expectsFeedback ? START_BITRATE : Math.max(this.#estimate, Math.min(this.#max, UNPROVEN_BITRATE));
  }

  /** Most paths carry what is asked of them: a viewer who waited for proof would start with a poor picture, or none. */
  #isUnproven(nowMs: number): boolean {
    if (this.#lastDecreaseMs > Number.NEGATIVE_INFINITY) return false;
    return this.#firstReportMs < 0 || nowMs - this.#firstReportMs < UNPROVEN_MS;
  }

  get #hasFeedback(): boolean {
    return this.#lastFeedbackMs > Number.NEGATIVE_INFINITY;
  }

  get estimate(): number {
    return this.#estimate;
  }

  /** The share of what is wanted that is sent, 0 … 1. */
  satisfied(share: number, nowMs: number): void {
    this.#schedule.stretch = this.#estimate < WIDE ? 1 : LEAST_STRETCH + share;
    // A push is judged by what one had before it.
    if (!this.#trial.isOnFor(this.#pushes, nowMs)) this.#congestion.satisfaction = share;
  }

  /** What waits on the way is more than a burst. */
  hasDeepQueue(nowMs: number): boolean {
    return this.#congestion.hasDeepQueue(this.#estimate, nowMs);
  }

  /** So much of it that what begins has to wait. */
  isToWait(nowMs: number): boolean {
    return this.#congestion.isToWait(this.#estimate, nowMs);
  }

  /** What the estimate is made of; `loss` is that of the last second, null when it says nothing. */
  describe(nowMs: number): { estimate: number; queueMs: number; loss: number | null } {
    const loss = nowMs - this.#lossAtMs < FEEDBACK_TIMEOUT_MS ? this.#loss : null;
    return { estimate: this.#estimate, queueMs: this.#congestion.queueMs(this.#estimate, nowMs), loss };
  }

  /** The share that the path itself has lost since the last call, 0 … 1, whoever caused it; null when nobody told. */
  takeLoss(): number | null {
    return this.#lossFilter.takeSeen();
  }

  isCongested(nowMs: number): boolean {
    return nowMs - this.#lastCongestedMs < CONGESTED_MS;
  }

  onFeedback(feedback: TransportFeedback, sent: SentPackets, nowMs: number): void {
    const sinceMs = Math.min(nowMs - this.#lastFeedbackMs, SILENCE_MS);
    if (sinceMs === SILENCE_MS) {
      this.#congestion.restart();
      this.#lossFilter.restart();
    }
    if (!this.#hasFeedback) this.#estimate = Math.min(this.#estimate, this.#clamp(START_BITRATE));
    this.#lastFeedbackMs = nowMs;
    if (this.#firstReportMs < 0) this.#firstReportMs = nowMs;
    const acknowledged = sent.match(feedback, nowMs);
    this.#lossFilter.add(acknowledged, this.#lastDecreaseMs);
    this.#congestion.add(acknowledged);
    this.#congestion.reportedUpTo(feedback, sent);
    this.#probe?.add(acknowledged);
    this.#finishProbe(nowMs);
    const congested = this.#congestion.judge(this.#estimate, this.#lastDecreaseMs, nowMs);
    if (congested) this.#onCongestion(congested, nowMs);
    else this.#weighLoss(nowMs);
    if (this.#congestion.isGrowthSafe && !this.#holds(nowMs) && !this.#isLossy(nowMs)) this.#grow(sinceMs);
  }

  #onCongestion({ carried, isLimit, isSudden }: Verdict, nowMs: number): void {
    this.#lastCongestedMs = nowMs;
    const isFilled = isLimit || this.#congestion.offeredBps > this.#estimate * FILLED;
    const to = (isFilled ? carried : Math.max(carried, this.#estimate)) * DECREASE;
    // What was sent before less was says nothing of what came after, unless it says that this is by far not enough.
    const isNews = this.#congestion.reportedUpToMs > this.#lastDecreaseMs && !this.#holds(nowMs);
    if (isNews || isSudden) this.#decrease(to, nowMs);
  }

  #weighLoss(nowMs: number): void {
    const ratio = this.#lossFilter.take(nowMs);
    if (ratio !== undefined) this.onLoss(ratio, nowMs);
  }

  /** From receiver reports when there is no transport-wide feedback; 0 … 1. */
  onLoss(ratio: number, nowMs: number): void {
    this.#loss = ratio;
    this.#lossAtMs = nowMs;
    if (ratio > HIGH_LOSS && !this.#holds(nowMs)) this.#decrease(this.#estimate * (1 - 0.5 * ratio), nowMs);
  }

  /** Where nothing is sent any more nothing is lost: the last figure must not keep a viewer without a picture for good. */
  #isLossy(nowMs: number): boolean {
    return this.#loss > LOW_LOSS && nowMs - this.#lossAtMs < FEEDBACK_TIMEOUT_MS;
  }

  /** Taken as it is while no transport-wide feedback comes, and not at all beside it. */
  onRemb(bitrate: number, nowMs: number): void {
    if (nowMs - this.#lastFeedbackMs < FEEDBACK_TIMEOUT_MS) return;
    if (this.#firstReportMs < 0) this.#firstReportMs = nowMs;
    if (bitrate < this.#estimate * 0.9) this.#noteCongestion(nowMs);
    this.#estimate = this.#clamp(bitrate);
  }

  #decrease(to: number, nowMs: number): void {
    this.#noteCongestion(nowMs);
    if (to > 0) this.#estimate = this.#clamp(Math.min(this.#estimate, to));
  }

  #noteCongestion(nowMs: number): void {
    this.#lastDecreaseMs = this.#lastCongestedMs = this.#limitedMs = nowMs;
    if (this.#hasFeedback && this.#estimate >= WIDE)
      this.#schedule.wait(nowMs + WAIT_OF_THE_SATISFIED_MS * this.#congestion.satisfaction);
    this.#trial.fail(nowMs);
  }

  #isLimited(nowMs: number): boolean {
    return nowMs - this.#limitedMs <= LIMIT_FORGOTTEN_MS;
  }

  #holds(nowMs: number): boolean {
    return nowMs - this.#lastDecreaseMs < HOLD_AFTER_DECREASE_MS;
  }

  #grow(elapsedMs: number): void {
    const acknowledged = this.#congestion.acknowledgedBps;
    const ceiling = acknowledged * GROWTH_HEADROOM + 10_000;
    if (this.#estimate >= ceiling) return;
    this.#estimate = Math.max(this.#estimate, acknowledged);
    const grown = this.#estimate * GROWTH_PER_SECOND ** (elapsedMs / 1000) + 1_000 * (elapsedMs / 1000);
    this.#estimate = this.#clamp(Math.min(grown, ceiling));
  }

  #clamp(bitrate: number): number {
    return Math.max(this.#min, Math.min(this.#max, bitrate));
  }

  /**
   * Somebody could use `next` bits/s, more than the estimate, and all together `most`. Returns a probe to send, or undefined:
   * not now, or (without transport-wide feedback, or without anything to probe with) `budget` allows it for a while to see what
   * happens.
   */
  requestUpgrade(next: number, nowMs: number, { most = next, canProbe = true } = {}): ProbePlan | undefined {
    this.#finishProbe(nowMs);
    if (this.#firstRequestMs < 0) {
      this.#firstRequestMs = nowMs;
      this.#pushes.begun(nowMs);
    }
    if (next <= this.#estimate || this.#probe !== undefined) return undefined;
    if (this.#congestion.isClogged(this.#estimate, nowMs) || this.isCongested(nowMs) || this.#isLossy(nowMs))
      return undefined;
    const isReported = nowMs - this.#lastFeedbackMs <= FEEDBACK_TIMEOUT_MS;
    const schedule = isReported && !canProbe ? this.#returns : this.#schedule;
    const goesOn = isReported && canProbe && this.#trial.takeProbe(nowMs);
    if (!goesOn && (this.#trial.isOn(nowMs) || !schedule.isDue(nowMs))) return undefined;
    if (!isReported || !canProbe) {
      // The first report may still be on its way.
      if (nowMs - this.#firstRequestMs < FEEDBACK_TIMEOUT_MS) return undefined;
      this.#trial.begin(next, schedule, nowMs, { probes: !isReported || !this.#isLimited(nowMs) });
      return undefined;
    }
    this.#schedule.begun(nowMs);
    this.#wanted = next;
    this.#probeId = (this.#probeId % 255) + 1;
    // One that shares a narrow path gets more of it in a burst than it can keep: it asks for no more than it needs.
    const step = this.#isLimited(nowMs) ? 1 : PROBE_STEP;
    const target = Math.min(Math.max(next, Math.min(most, this.#estimate * step)) * PROBE_HEADROOM, this.#max);
    const known = { estimate: this.#estimate, mediaBitrate: this.#congestion.arrivingBps };
    this.#probe = new ProbeMeasurement(this.#probeId, target, known, nowMs);
    return this.#probe.plan;
  }

  #finishProbe(nowMs: number): void {
    if (this.#probe === undefined || !this.#probe.isOver(nowMs)) return;
    const result = this.#probe.result();
    const enough = result !== undefined && result.bitrate * PROBE_HEADROOM >= this.#probe.target;
    this.#probe = undefined;
    if (result?.saturated) {
      this.#limitedMs = nowMs;
      this.#trial.fail(nowMs);
    }
    if (result !== undefined && (result.bitrate > this.#estimate || result.saturated)) {
      this.#estimate = this.#clamp(Math.max(result.bitrate, this.#congestion.acknowledgedBps));
    }
    if (enough) this.#schedule.succeeded(nowMs);
    else this.#schedule.failed(nowMs);
    const isNear = !enough && result !== undefined && result.bitrate >= this.#wanted * NEARLY;
    const isPoor = this.#estimate >= WIDE && this.#congestion.satisfaction < PUSHES_BELOW;
    if (isNear && isPoor && this.#pushes.isDue(nowMs)) this.#trial.begin(this.#wanted, this.#pushes, nowMs);
  }
}
