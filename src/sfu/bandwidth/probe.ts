// Attempts to find more bandwidth. A probe sends a short burst of padding faster than the estimate and measures the rate at which
// it arrives. A trial sends the higher layer itself for a moment. A failure delays the next attempt, but never so long that a link
// which has recovered goes unnoticed.

import type { AcknowledgedPackets } from "../wire/rtcp/twcc-feedback.ts";

const PROBES: Intervals = { firstMs: 3_000, mostMs: 6_000, growth: 1.5 };
const NEXT_STEP_MS = 200;
/** How long a probe delays the packets after it on a path that carries no more than the estimate. */
const PROBE_MS = 100;
const MIN_PROBE_BYTES = 5_000;
/** On a path where MIN_PROBE_BYTES would take longer than this, a probe has fewer bytes. */
const LONGEST_PROBE_MS = 300;
const LEAST_PROBE_BYTES = 3_000;
/** Fewer packets do not show a rate. */
const MIN_ARRIVED = 4;
const RESULT_TIMEOUT_MS = 1_500;
const MIN_PADDING_SHARE = 0.3;

export interface ProbePlan {
  /** Passed to `SentPackets.next` with every packet of the probe. */
  id: number;
  bitrate: number;
  /** The last packet of the probe may exceed it. */
  bytes: number;
  /** Spread evenly over this time. */
  durationMs: number;
}

/** The time between attempts: at first, at most, and its growth after each failure. */
type Intervals = { firstMs: number; mostMs: number; growth: number };

/** When the next attempt may be made. */
export class UpgradeSchedule {
  /** A factor on all intervals, for subscribers that should try more or less often than others. */
  stretch = 1;
  readonly #intervals: Intervals;
  #intervalMs: number;
  #notBeforeMs = 0;

  constructor(intervals: Partial<Intervals> = {}) {
    this.#intervals = { ...PROBES, ...intervals };
    this.#intervalMs = this.#intervals.firstMs;
  }

  isDue(nowMs: number): boolean {
    return nowMs >= this.#notBeforeMs;
  }

  begun(nowMs: number): void {
    this.#notBeforeMs = nowMs + this.#intervalMs * this.stretch;
  }

  failed(nowMs: number): void {
    const { mostMs, growth } = this.#intervals;
    this.#intervalMs = Math.min(mostMs, this.#intervalMs * growth);
    this.begun(nowMs);
  }

  /** Allows no attempt before `untilMs`. */
  postpone(untilMs: number): void {
    this.#notBeforeMs = Math.max(this.#notBeforeMs, untilMs);
  }

  /** Allows the next step almost at once. */
  succeeded(nowMs: number): void {
    this.#intervalMs = this.#intervals.firstMs;
    this.#notBeforeMs = nowMs + NEXT_STEP_MS;
  }
}

/** One probe under way, measured by the subscriber's feedback. Media sent meanwhile counts as well. */
export class ProbeMeasurement {
  readonly plan: ProbePlan;
  /** Bits/s of probe and media together. */
  readonly target: number;
  readonly #startedMs: number;
  #reportedBytes = 0;
  #arrived = 0;
  #arrivedBytes = 0;
  #bytes = 0;
  #firstSent = Number.POSITIVE_INFINITY;
  #lastSent = Number.NEGATIVE_INFINITY;
  #firstArrived = Number.POSITIVE_INFINITY;
  #lastArrived = Number.NEGATIVE_INFINITY;
  #firstBytes = 0;

  constructor(id: number, target: number, known: { estimate: number; mediaBitrate: number }, nowMs: number) {
    const bitrate = Math.max(target - known.mediaBitrate, target * MIN_PADDING_SHARE);
    const least = Math.max(LEAST_PROBE_BYTES, Math.min(MIN_PROBE_BYTES, (known.estimate * LONGEST_PROBE_MS) / 8000));
    const bytes = Math.max(least, (known.estimate * PROBE_MS) / 8000);
    this.plan = { id, bitrate, bytes, durationMs: (bytes * 8000) / bitrate };
    this.target = target;
    this.#startedMs = nowMs;
  }

  add({ count, sentAtMs, arrivedAtMs, bytes, probe }: AcknowledgedPackets): void {
    for (let i = 0; i < count; i++)
      this.#add(sentAtMs[i] as number, arrivedAtMs[i] as number, bytes[i] as number, probe[i] as number);
  }

  #add(sentMs: number, arrivedMs: number, bytes: number, probe: number): void {
    if (probe === this.plan.id) this.#reportedBytes += bytes;
    else if (probe !== 0 || sentMs < this.#startedMs || sentMs > this.#startedMs + this.plan.durationMs) return;
    if (Number.isNaN(arrivedMs)) return;
    if (probe === this.plan.id) this.#arrivedBytes += bytes;
    this.#arrived += 1;
    this.#bytes += bytes;
    this.#firstSent = Math.min(this.#firstSent, sentMs);
    this.#lastSent = Math.max(this.#lastSent, sentMs);
    if (arrivedMs < this.#firstArrived) {
      this.#firstArrived = arrivedMs;
      this.#firstBytes = bytes;
    }
    this.#lastArrived = Math.max(this.#lastArrived, arrivedMs);
  }

  isOver(nowMs: number): boolean {
    return this.#reportedBytes >= this.plan.bytes || nowMs - this.#startedMs > this.plan.durationMs + RESULT_TIMEOUT_MS;
  }

  /** The rate that the path carried, or undefined when too little arrived. */
  result(): ProbeResult | undefined {
    if (this.#arrived < MIN_ARRIVED || this.#arrivedBytes < this.plan.bytes * 0.8) return undefined;
    const sendMs = this.#lastSent - this.#firstSent;
    const receiveMs = this.#lastArrived - this.#firstArrived;
    if (sendMs <= 0 || receiveMs <= 0) return undefined;
    // The first packet opens the interval, so its bytes are not counted.
    const bits = (this.#bytes - this.#firstBytes) * 8;
    const sent = (bits * 1000) / sendMs;
    const received = (bits * 1000) / receiveMs;
    return received < sent * 0.9
      ? { bitrate: received * 0.95, saturated: true }
      : { bitrate: Math.min(sent, received), saturated: false };
  }
}

interface ProbeResult {
  /** Bits/s. */
  bitrate: number;
  /** The probe arrived more slowly than it was sent, so the path carries no more. */
  saturated: boolean;
}

const TRIAL_MS = 2_500;

/** A temporary upgrade beyond the estimate, for subscribers that send no feedback on probes or whose probe found nearly enough. */
export class BandwidthTrial {
  #untilMs = Number.NEGATIVE_INFINITY;
  #bitrate = 0;
  #schedule: UpgradeSchedule | undefined;
  #probes = false;

  /** `probes` says that the trial replaces a probe that cannot be sent yet, because there are no reports or no video. */
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

  /** Bits/s that may be sent during the trial. */
  get bitrate(): number {
    return this.#bitrate;
  }

  /** Returns true once per trial, if the probe that the trial replaced may be sent after all. */
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
