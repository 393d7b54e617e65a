// What the path to one viewer carries, in bits/s: delay gradient and loss from transport-wide feedback (a small Google
// congestion control), or the viewer's own REMB when that is all there is. The estimate can only see what is sent, so
// going up is tried: by a probe, or by a trial.

import type { SentPackets, TransportFeedback } from "../rtcp/twcc-feedback.ts";
import { LossFilter } from "./loss-filter.ts";
import { ProbeMeasurement, type ProbePlan, TRIAL_MS, UpgradeSchedule } from "./probe.ts";
import { RateMeter } from "./rate-meter.ts";
import { Trendline } from "./trendline.ts";

export interface EstimatorOptions {
  startBitrate?: number;
  minBitrate?: number;
  maxBitrate?: number;
}

const DECREASE = 0.85;
/** Arriving at this share of the rate it was sent at, nothing waits for a narrow link. */
const UNHINDERED = 0.75;
/** Sending less than this share of the estimate says nothing about the rest of it. */
const FILLED = 0.8;
/** No jitter makes every packet wait this long. */
const DEEP_QUEUE_MS = 150;
/** While packets wait, less is sent than the path carries: a keyframe behind a full queue comes too late. */
const DRAINING = 0.6;
const GROWTH_PER_SECOND = 1.08;
const HOLD_AFTER_DECREASE_MS = 300;
const HIGH_LOSS = 0.1;
/** Above this nothing grows. */
const LOW_LOSS = 0.05;
const FEEDBACK_TIMEOUT_MS = 2_000;
const SILENCE_MS = 1_000;
const CONGESTED_MS = 1_000;
const PROBE_HEADROOM = 1.1;
/** Where transport-wide feedback tells of every packet, a path nobody has heard of begins here, and probes find the rest at once. */
const START_BITRATE = 300_000;
/** Without it, it may be used up to here until it shows a limit or has had time to. */
const UNPROVEN_BITRATE = 5_000_000;
const UNPROVEN_MS = 3_000;
/** From here on nothing more is added to what waits, until it has gone. */
const CLOGGED_QUEUE_MS = 500;
/** Nothing is reported any more where nothing is sent: by then what was under way has arrived. */
const CLOGGED_SILENCE_MS = 300;

export class BandwidthEstimator {
  readonly #min: number;
  readonly #max: number;
  readonly #trend = new Trendline();
  readonly #acknowledged = new RateMeter();
  readonly #offered = new RateMeter();
  readonly #schedule = new UpgradeSchedule();
  #estimate: number;
  #lastFeedbackMs = Number.NEGATIVE_INFINITY;
  #lastDecreaseMs = Number.NEGATIVE_INFINITY;
  readonly #lossFilter = new LossFilter();
  #loss = 0;
  #lossAtMs = Number.NEGATIVE_INFINITY;
  #firstRequestMs = -1;
  #firstReportMs = -1;
  #isClogged = false;
  #probe: ProbeMeasurement | undefined;
  #probeId = 0;
  #trialUntilMs = Number.NEGATIVE_INFINITY;
  #trialBitrate = 0;

  constructor(options: EstimatorOptions = {}) {
    this.#min = options.minBitrate ?? 50_000;
    this.#max = options.maxBitrate ?? 50_000_000;
    this.#estimate = options.startBitrate ?? 1_000_000;
  }

  /**
   * What may be sent now: the estimate, or more while a trial is on or nothing is known yet. `least` is what everybody's
   * lowest layer takes, which is shown before there is proof. Nothing, while too much waits on the way.
   */
  budget(nowMs: number, least = 0, expectsFeedback = false): number {
    if (this.isClogged(nowMs)) return 0;
    if (this.#isUnproven(nowMs)) return Math.max(this.#unproven(expectsFeedback), Math.min(least, UNPROVEN_BITRATE));
    if (nowMs < this.#trialUntilMs) return Math.max(this.#estimate, this.#trialBitrate);
    const isDraining = this.isCongested(nowMs) && this.#trend.queueMs > DEEP_QUEUE_MS;
    return isDraining ? this.#estimate * DRAINING : this.#estimate;
  }

  #unproven(expectsFeedback: boolean): number {
    if (this.#hasFeedback) return this.#estimate;
    return expectsFeedback ? START_BITRATE : Math.max(this.#estimate, Math.min(this.#max, UNPROVEN_BITRATE));
  }

  /** More waits on the way than anybody wants to look at, and has not had the time to go. */
  isClogged(nowMs: number): boolean {
    return this.#isClogged && nowMs - this.#lastFeedbackMs < CLOGGED_SILENCE_MS;
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

  isCongested(nowMs: number): boolean {
    return nowMs - this.#lastDecreaseMs < CONGESTED_MS;
  }

  onFeedback(feedback: TransportFeedback, sent: SentPackets, nowMs: number): void {
    const sinceMs = Math.min(nowMs - this.#lastFeedbackMs, SILENCE_MS);
    if (sinceMs === SILENCE_MS) {
      this.#trend.restart();
      this.#lossFilter.restart();
    }
    if (!this.#hasFeedback) this.#estimate = Math.min(this.#estimate, this.#clamp(START_BITRATE));
    this.#lastFeedbackMs = nowMs;
    if (this.#firstReportMs < 0) this.#firstReportMs = nowMs;
    sent.match(feedback, nowMs, ({ sentAtMs, arrivedAtMs, bytes, probe }) => {
      const lost = Number.isNaN(arrivedAtMs);
      this.#lossFilter.add(bytes, lost);
      this.#offered.add(bytes, sentAtMs);
      this.#probe?.add(sentAtMs, arrivedAtMs, bytes, probe);
      if (lost) return;
      this.#acknowledged.add(bytes, arrivedAtMs);
      // A probe is meant to queue for a moment: it says nothing about the media.
      if (probe === 0) this.#trend.add(sentAtMs, arrivedAtMs);
    });
    this.#finishProbe(nowMs);
    this.#weighQueue();
    if (this.#trend.signal === "overuse" || this.#isClogged) this.#decrease(this.#carried() * DECREASE, nowMs);
    else this.#weighLoss(nowMs);
    if (this.#trend.signal === "normal" && !this.#holds(nowMs) && !this.#isLossy(nowMs)) this.#grow(sinceMs);
  }

  /**
   * What the path carries as far as can be told. When little is sent, little arrives: a publisher that falters, or a layer
   * that has just ended, must not be taken for a narrow path.
   */
  #carried(): number {
    const arrived = this.#acknowledged.latestBitsPerSecond();
    const offered = this.#offered.latestBitsPerSecond();
    const isHindered = arrived < offered * UNHINDERED || this.#trend.queueMs > DEEP_QUEUE_MS;
    const isLimit = isHindered || offered > this.#estimate * FILLED;
    return isLimit ? arrived : Math.max(arrived, this.#estimate);
  }

  /** A queue that only stands there shows no gradient, however deep it is. */
  #weighQueue(): void {
    const { queueMs } = this.#trend;
    if (queueMs > CLOGGED_QUEUE_MS) this.#isClogged = true;
    else if (queueMs < DEEP_QUEUE_MS) this.#isClogged = false;
  }

  #weighLoss(nowMs: number): void {
    const ratio = this.#lossFilter.take(nowMs);
    if (ratio !== undefined) this.onLoss(ratio, nowMs);
  }

  /** From receiver reports when there is no transport-wide feedback; 0 … 1. */
  onLoss(ratio: number, nowMs: number): void {
    this.#loss = ratio;
    this.#lossAtMs = nowMs;
    if (ratio > HIGH_LOSS) this.#decrease(this.#estimate * (1 - 0.5 * ratio), nowMs);
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
    if (this.#holds(nowMs)) return;
    this.#noteCongestion(nowMs);
    if (to > 0) this.#estimate = this.#clamp(Math.min(this.#estimate, to));
  }

  #noteCongestion(nowMs: number): void {
    this.#lastDecreaseMs = nowMs;
    if (nowMs < this.#trialUntilMs) {
      this.#trialUntilMs = nowMs;
      this.#schedule.failed(nowMs);
    }
  }

  #holds(nowMs: number): boolean {
    return nowMs - this.#lastDecreaseMs < HOLD_AFTER_DECREASE_MS;
  }

  /** At least what arrives, and never far beyond: the rest is for probes to find out. */
  #grow(elapsedMs: number): void {
    const acknowledged = this.#acknowledged.latestBitsPerSecond();
    const ceiling = acknowledged * 1.5 + 10_000;
    if (this.#estimate >= ceiling) return;
    this.#estimate = Math.max(this.#estimate, acknowledged);
    const grown = this.#estimate * GROWTH_PER_SECOND ** (elapsedMs / 1000) + 1_000 * (elapsedMs / 1000);
    this.#estimate = this.#clamp(Math.min(grown, ceiling));
  }

  #clamp(bitrate: number): number {
    return Math.max(this.#min, Math.min(this.#max, bitrate));
  }

  /**
   * Somebody could use `wanted` bits/s, more than the estimate. Returns a probe to send, or undefined: not now, or
   * (without transport-wide feedback, or without anything to probe with) `budget` allows it for a while to see what happens.
   */
  requestUpgrade(wanted: number, nowMs: number, canProbe = true): ProbePlan | undefined {
    this.#finishProbe(nowMs);
    if (this.#firstRequestMs < 0) this.#firstRequestMs = nowMs;
    if (wanted <= this.#estimate || this.#probe !== undefined || nowMs < this.#trialUntilMs) return undefined;
    if (this.isClogged(nowMs) || this.isCongested(nowMs) || this.#isLossy(nowMs) || !this.#schedule.isDue(nowMs))
      return undefined;
    if (nowMs - this.#lastFeedbackMs > FEEDBACK_TIMEOUT_MS || !canProbe) {
      // The first report may still be on its way.
      if (nowMs - this.#firstRequestMs < FEEDBACK_TIMEOUT_MS) return undefined;
      this.#schedule.begun(nowMs);
      this.#trialUntilMs = nowMs + TRIAL_MS;
      this.#trialBitrate = wanted;
      return undefined;
    }
    this.#schedule.begun(nowMs);
    this.#probeId = (this.#probeId % 255) + 1;
    const target = Math.min(wanted * PROBE_HEADROOM, this.#max);
    this.#probe = new ProbeMeasurement(this.#probeId, target, this.#acknowledged.latestBitsPerSecond(), nowMs);
    return this.#probe.plan;
  }

  #finishProbe(nowMs: number): void {
    if (this.#probe === undefined || !this.#probe.isOver(nowMs)) return;
    const result = this.#probe.result();
    const enough = result !== undefined && result.bitrate * PROBE_HEADROOM >= this.#probe.target;
    this.#probe = undefined;
    if (result !== undefined && (result.bitrate > this.#estimate || result.saturated)) {
      this.#estimate = this.#clamp(Math.max(result.bitrate, this.#acknowledged.latestBitsPerSecond()));
    }
    if (enough) this.#schedule.succeeded(nowMs);
    else this.#schedule.failed(nowMs);
  }
}
