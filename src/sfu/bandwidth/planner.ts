// What one viewer is sent, from what it wants and what its path carries; and when to think about it anew.

import { BandwidthEstimator } from "./bandwidth-estimator.ts";
import { firstPictureBitrate, LayerChooser, type LayerDecision, type LayerRequest } from "./layers.ts";
import type { ProbePlan } from "./probe.ts";

/** Without any occasion: rates drift, and more may fit than before. */
const REVIEW_INTERVAL_MS = 500;

const REPAIR_SHARE = 0.3;
const REPAIR_BURST_MS = 500;
const MIN_REPAIR_BITRATE = 100_000;

export type Plan = {
  decisions: readonly LayerDecision[];
  /** What is given up ends now, rather than when its successor begins: it would only make the queue longer. */
  stopsAtOnce: boolean;
  /** What begins with a keyframe waits for the queue to go: it would come after all that is in it. */
  waits: boolean;
  /** To be sent now. */
  probe: ProbePlan | undefined;
};

/**
 * `numbered`: what is sent has transport-wide numbers, so the viewer reports on each packet. `canProbe`: something is sent that a
 * probe can be made of; `willProbe`: there is, once it has begun.
 */
export type PlanOptions = { numbered: boolean; canProbe: boolean; willProbe: boolean };

export class BandwidthPlanner {
  readonly estimator = new BandwidthEstimator();
  readonly #chooser = new LayerChooser();
  #dueMs = 0;
  #used = 0;
  #nextStep = Number.POSITIVE_INFINITY;
  /** Bits/s of the sound and one picture. */
  #least = 0;
  #numbered = false;
  #waits = false;
  #repairedMs = 0;
  #repairCredit = 0;

  forget(id: string): void {
    this.#chooser.forget(id);
  }

  /** Viewers are many and mostly nothing changes: a new plan takes an occasion. */
  isDue(nowMs: number): boolean {
    if (nowMs >= this.#dueMs || (this.#waits && !this.estimator.isToWait(nowMs))) return true;
    const budget = this.#budget(nowMs);
    return budget < this.#used || budget >= this.#nextStep;
  }

  plan(requests: readonly LayerRequest[], { numbered, canProbe, willProbe }: PlanOptions, nowMs: number): Plan {
    this.#dueMs = nowMs + REVIEW_INTERVAL_MS;
    this.#least = firstPictureBitrate(requests);
    this.#numbered = numbered;
    const { decisions, used, pictures, nextStep, wanted } = this.#chooser.choose(requests, this.#budget(nowMs), nowMs);
    this.#used = used;
    this.estimator.satisfied(wanted > 0 ? Math.min(1, used / wanted) : 1, nowMs);
    this.#nextStep = nextStep ?? Number.POSITIVE_INFINITY;
    this.#waits = this.estimator.isToWait(nowMs);
    // What has just been chosen shows soon whether it fits; more of it can be probed for then.
    const isBeginning = willProbe && !canProbe && pictures > 0;
    const probe =
      nextStep === undefined || isBeginning
        ? undefined
        : this.estimator.requestUpgrade(nextStep, nowMs, { most: wanted, canProbe });
    return { decisions, stopsAtOnce: this.#waits || this.estimator.hasDeepQueue(nowMs), waits: this.#waits, probe };
  }

  /** Whether so much may be sent again: repairs of all that a full queue drops would keep it full. */
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
    return this.estimator.budget(nowMs, this.#least, this.#numbered);
  }
}
