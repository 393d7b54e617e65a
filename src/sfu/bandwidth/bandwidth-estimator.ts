// Estimates what the path to one subscriber carries, in bits/s: by delay gradient and loss from transport-wide feedback (a small
// Google congestion control), or by the subscriber's REMB where there is none. Only sent traffic can be measured, so more
// bandwidth is found by a probe or a trial.

import type { SentPackets, TransportFeedback } from "../wire/rtcp/twcc-feedback.ts";
import { Congestion, type CongestionVerdict } from "./congestion.ts";
import { LossFilter } from "./loss-filter.ts";
import { BandwidthTrial, ProbeMeasurement, type ProbePlan, UpgradeSchedule } from "./probe.ts";

const MIN_BITRATE = 50_000;
const MAX_BITRATE = 50_000_000;
const INITIAL_BITRATE = 1_000_000;
const DECREASE = 0.85;
/** The estimate counts as used from this share on: sending less shows nothing about the rest. */
const FILLED = 0.8;
const GROWTH_PER_SECOND = 1.08;
/** The estimate grows this far beyond the arriving rate; probes find the rest. */
const GROWTH_HEADROOM = 1.25;
const HOLD_AFTER_DECREASE_MS = 300;
const HIGH_LOSS = 0.1;
/** Above this loss the estimate does not grow. */
const LOW_LOSS = 0.05;
const FEEDBACK_TIMEOUT_MS = 2_000;
const SILENCE_MS = 1_000;
const CONGESTED_MS = 1_000;
const FIRST_VIDEO_INTERVALS = { firstMs: 1_500 };
const PROBE_HEADROOM = 1.1;
/** A probe targets up to this multiple of the estimate, so that few probes find a wide path. */
const PROBE_STEP = 2.5;
const LIMIT_FORGOTTEN_MS = 10_000;
/**
 * On a shared path a subscriber that has little of what it wants probes twice as often as one that has all of it, and a
 * satisfied subscriber waits this long after congestion.
 */
const MIN_STRETCH = 0.6;
const SATISFIED_WAIT_MS = 10_000;
/**
 * A subscriber with less than this share of what it wants, whose probe found nearly enough, sends the next step for a moment:
 * a subscriber with more on the same path then makes room. If none does, the trial fails and is repeated rarely.
 */
const PUSHES_BELOW = 0.55;
const NEARLY = 0.8;
/** Sharing applies from this bitrate on: on a narrower path a small excess is a queue that takes seconds to drain. */
const WIDE = 600_000;
const PUSH_INTERVALS = { firstMs: 5_000, mostMs: 60_000, growth: 2 };
/** With transport-wide feedback an unknown path starts here, and probes find the rest at once. */
const START_BITRATE = 300_000;
/** Without transport-wide feedback an unknown path may be used up to here until it shows a limit or has had time to. */
const UNPROVEN_BITRATE = 5_000_000;
const UNPROVEN_MS = 3_000;

export class BandwidthEstimator {
  readonly #congestion = new Congestion();
  readonly #schedule = new UpgradeSchedule();
  /** For the first video of a subscriber that has none, when no probe can be sent. */
  readonly #firstVideoSchedule = new UpgradeSchedule(FIRST_VIDEO_INTERVALS);
  #estimate = INITIAL_BITRATE;
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
  readonly #trial = new BandwidthTrial();
  readonly #pushes = new UpgradeSchedule(PUSH_INTERVALS);
  /** The bitrate that the current probe was requested for. */
  #wanted = 0;

  /** A replay of a recorded connection continues from a known state. */
  constructor(resume?: { estimate: number; atMs: number }) {
    if (resume === undefined) return;
    this.#estimate = resume.estimate;
    this.#lastFeedbackMs = resume.atMs;
    this.#firstReportMs = resume.atMs - UNPROVEN_MS;
  }

  /**
   * The bitrate that may be sent now: the estimate, but more during a bandwidth trial or before the path is measured, and less
   * while a queue drains. `least` is the bitrate of one video, which is sent even before the path is measured.
   */
  budget(nowMs: number, least = 0, expectsFeedback = false): number {
    if (this.#congestion.isClogged(this.#estimate, nowMs)) return 0;
    if (this.#isUnproven(nowMs)) return Math.max(this.#unproven(expectsFeedback), Math.min(least, UNPROVEN_BITRATE));
    if (this.#trial.isOn(nowMs)) return Math.max(this.#estimate, this.#trial.bitrate);
    return this.#congestion.drainBudget(this.#estimate, least, nowMs);
  }

  #unproven(expectsFeedback: boolean): number {
    if (this.#hasFeedback) return this.#estimate;
    return expectsFeedback ? START_BITRATE : Math.max(this.#estimate, Math.min(MAX_BITRATE, UNPROVEN_BITRATE));
  }

  /** Most paths carry what is wanted: waiting for a measurement would start every subscriber with poor video or none. */
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

  /** `share` is the part of the wanted bitrate that is sent, 0 … 1. */
  setSatisfaction(share: number, nowMs: number): void {
    this.#schedule.stretch = this.#estimate < WIDE ? 1 : MIN_STRETCH + share;
    // The satisfaction before a push is the one by which the push is judged.
    if (!this.#trial.isOnFor(this.#pushes, nowMs)) this.#congestion.satisfaction = share;
  }

  hasDeepQueue(nowMs: number): boolean {
    return this.#congestion.hasDeepQueue(this.#estimate, nowMs);
  }

  shouldDeferKeyframes(nowMs: number): boolean {
    return this.#congestion.shouldDeferKeyframes(this.#estimate, nowMs);
  }

  /** The figures behind the estimate; `loss` is that of the last second, null without a measurement. */
  describe(nowMs: number): { estimate: number; queueMs: number; loss: number | null } {
    const loss = nowMs - this.#lossAtMs < FEEDBACK_TIMEOUT_MS ? this.#loss : null;
    return { estimate: this.#estimate, queueMs: this.#congestion.queueMs(this.#estimate, nowMs), loss };
  }

  /** The loss on the path since the last call, 0 … 1, whatever its cause; null without a report. */
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

  #onCongestion({ carried, isLimit, isSudden }: CongestionVerdict, nowMs: number): void {
    this.#lastCongestedMs = nowMs;
    const isFilled = isLimit || this.#congestion.offeredBps > this.#estimate * FILLED;
    const to = (isFilled ? carried : Math.max(carried, this.#estimate)) * DECREASE;
    // The loss of packets sent before the last decrease says nothing about the lower rate, unless the path carries far less than
    // even that.
    const isNew = this.#congestion.reportedUpToMs > this.#lastDecreaseMs && !this.#holds(nowMs);
    if (isNew || isSudden) this.#decrease(to, nowMs);
  }

  #weighLoss(nowMs: number): void {
    const ratio = this.#lossFilter.take(nowMs);
    if (ratio !== undefined) this.onLoss(ratio, nowMs);
  }

  /** Takes loss, 0 … 1; from receiver reports when there is no transport-wide feedback. */
  onLoss(ratio: number, nowMs: number): void {
    this.#loss = ratio;
    this.#lossAtMs = nowMs;
    if (ratio > HIGH_LOSS && !this.#holds(nowMs)) this.#decrease(this.#estimate * (1 - 0.5 * ratio), nowMs);
  }

  /** The last figure expires, because without video nothing is lost and the subscriber would stay without video. */
  #isLossy(nowMs: number): boolean {
    return this.#loss > LOW_LOSS && nowMs - this.#lossAtMs < FEEDBACK_TIMEOUT_MS;
  }

  /** REMB is used only while there is no transport-wide feedback. */
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
      this.#schedule.postpone(nowMs + SATISFIED_WAIT_MS * this.#congestion.satisfaction);
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
    return Math.max(MIN_BITRATE, Math.min(MAX_BITRATE, bitrate));
  }

  /**
   * Asks for `next` bits/s, more than the estimate, of `most` that the subscriber wants in all. Returns a probe to send, or
   * undefined: then either it is too early, or (without transport-wide feedback, or without packets to probe with) a trial begins
   * and `budget` allows the bitrate for a while.
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
    const schedule = isReported && !canProbe ? this.#firstVideoSchedule : this.#schedule;
    const replacesTrial = isReported && canProbe && this.#trial.takeProbe(nowMs);
    if (!replacesTrial && (this.#trial.isOn(nowMs) || !schedule.isDue(nowMs))) return undefined;
    if (!isReported || !canProbe) {
      // The first report may still be under way.
      if (nowMs - this.#firstRequestMs < FEEDBACK_TIMEOUT_MS) return undefined;
      this.#trial.begin(next, schedule, nowMs, { probes: !isReported || !this.#isLimited(nowMs) });
      return undefined;
    }
    this.#schedule.begun(nowMs);
    this.#wanted = next;
    this.#probeId = (this.#probeId % 255) + 1;
    // On a shared narrow path a burst gets more than the subscriber can keep, so the probe targets no more than it needs.
    const step = this.#isLimited(nowMs) ? 1 : PROBE_STEP;
    const target = Math.min(Math.max(next, Math.min(most, this.#estimate * step)) * PROBE_HEADROOM, MAX_BITRATE);
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
