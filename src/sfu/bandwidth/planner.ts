// Plans what one subscriber is sent, from what it wants and what its path carries, and decides when to plan again.

import { BandwidthEstimator } from "./bandwidth-estimator.ts";
import { firstFrameBitrate, LayerChooser, type LayerDecision, type LayerRequest } from "./layer-chooser.ts";
import type { ProbePlan } from "./probe.ts";

/** Plans are reviewed at this interval even if nothing happened, because rates drift and more may fit. */
const REVIEW_INTERVAL_MS = 500;

const REPAIR_SHARE = 0.3;
const REPAIR_BURST_MS = 500;
const MIN_REPAIR_BITRATE = 100_000;

type Plan = {
  decisions: readonly LayerDecision[];
  /** Higher layers stop at once instead of when the lower layer begins, because they would lengthen the queue. */
  stopsImmediately: boolean;
  /** Streams that need a keyframe begin only after the queue has drained, because the keyframe would wait in it anyway. */
  defersKeyframes: boolean;
  /** The probe to send now. */
  probe: ProbePlan | undefined;
};

type PlanOptions = {
  /** Packets have transport-wide sequence numbers, so the subscriber reports on each. */
  hasTransportSequence: boolean;
  /** Packets are sent that a probe can repeat. */
  canProbe: boolean;
  /** Packets that a probe can repeat will be sent once the video has begun. */
  willProbe: boolean;
};

export class BandwidthPlanner {
  readonly estimator = new BandwidthEstimator();
  /** No more is planned for, whatever the estimate. */
  limitBps = Number.POSITIVE_INFINITY;
  readonly #chooser = new LayerChooser();
  #dueMs = 0;
  #used = 0;
  #nextStep = Number.POSITIVE_INFINITY;
  /** Bits/s of audio and one video. */
  #least = 0;
  #numbered = false;
  #waits = false;
  #repairedMs = 0;
  #repairCredit = 0;

  forget(id: string): void {
    this.#chooser.forget(id);
  }

  /** There are many subscribers and usually nothing changes, so a new plan needs a reason. */
  isDue(nowMs: number): boolean {
    if (nowMs >= this.#dueMs || (this.#waits && !this.estimator.shouldDeferKeyframes(nowMs))) return true;
    const budget = this.#budget(nowMs);
    return budget < this.#used || budget >= this.#nextStep;
  }

  plan(
    requests: readonly LayerRequest[],
    { hasTransportSequence, canProbe, willProbe }: PlanOptions,
    nowMs: number,
  ): Plan {
    this.#dueMs = nowMs + REVIEW_INTERVAL_MS;
    this.#least = firstFrameBitrate(requests);
    this.#numbered = hasTransportSequence;
    const { decisions, used, videos, nextStep, wanted } = this.#chooser.choose(requests, this.#budget(nowMs), nowMs);
    this.#used = used;
    this.estimator.setSatisfaction(wanted > 0 ? Math.min(1, used / wanted) : 1, nowMs);
    this.#nextStep = nextStep ?? Number.POSITIVE_INFINITY;
    this.#waits = this.estimator.shouldDeferKeyframes(nowMs);
    // The chosen video soon shows whether it fits, so more is probed for only then.
    const isBeginning = willProbe && !canProbe && videos > 0;
    const probe =
      nextStep === undefined || nextStep > this.limitBps || isBeginning
        ? undefined
        : this.estimator.requestUpgrade(nextStep, nowMs, { most: wanted, canProbe });
    return {
      decisions,
      stopsImmediately: this.#waits || this.estimator.hasDeepQueue(nowMs),
      defersKeyframes: this.#waits,
      probe,
    };
  }

  /** Returns whether `bytes` may be retransmitted: repeating everything that a full queue drops would keep it full. */
  takeRepair(bytes: number, nowMs: number): boolean {
    const budget = Math.max(MIN_REPAIR_BITRATE, this.#budget(nowMs)) * REPAIR_SHARE;
    const earned = (budget * Math.min(nowMs - this.#repairedMs, REPAIR_BURST_MS)) / 8000;
    this.#repairCredit = Math.min(this.#repairCredit + earned, (budget * REPAIR_BURST_MS) / 8000);
    this.#repairedMs = nowMs;
    if (this.#repairCredit <= 0) return false;
    this.#repairCredit -= bytes;
    return true;
  }

  #budget(nowMs: number): number {
    return Math.min(this.limitBps, this.estimator.budget(nowMs, this.#least, this.#numbered));
  }
}
