// More is sent for a moment than is known to fit, to see what happens: where nobody reports on probes, or where they say too little.

import type { UpgradeSchedule } from "./probe.ts";

const TRIAL_MS = 2_500;

export class Trial {
  #untilMs = Number.NEGATIVE_INFINITY;
  #bitrate = 0;
  #schedule: UpgradeSchedule | undefined;
  #probes = false;

  /** `probes`: it stands in for a probe that cannot be sent yet, for want of reports or of a picture. */
  begin(bitrate: number, schedule: UpgradeSchedule, nowMs: number, { probes = false } = {}): void {
    schedule.begun(nowMs);
    this.#schedule = schedule;
    this.#untilMs = nowMs + TRIAL_MS;
    this.#bitrate = bitrate;
    this.#probes = probes;
  }

  isOn(nowMs: number): boolean {
    return nowMs < this.#untilMs;
  }

  isOnFor(schedule: UpgradeSchedule, nowMs: number): boolean {
    return this.#schedule === schedule && this.isOn(nowMs);
  }

  /** Bits/s that may be sent while it is on. */
  get bitrate(): number {
    return this.#bitrate;
  }

  /** Whether that probe may be sent now: once, rather than after a trial of what may be only the next step of several. */
  takeProbe(nowMs: number): boolean {
    if (!this.#probes || !this.isOn(nowMs)) return false;
    this.#probes = false;
    return true;
  }

  fail(nowMs: number): void {
    if (!this.isOn(nowMs)) return;
    this.#untilMs = nowMs;
    this.#schedule?.failed(nowMs);
  }
}
