// Detects congestion by four signs, from the fastest to the slowest: packets that arrive far more slowly than they were sent, a
// growing delay, a deep queue, and a standing queue.

import type { AcknowledgedPackets, SentPackets, TransportFeedback } from "../wire/rtcp/twcc-feedback.ts";
import { BottleneckDetector } from "./bottleneck-detector.ts";
import { RateMeter } from "./rate-meter.ts";
import { Trendline } from "./trendline.ts";

/** From this share of the sent rate on, the arriving rate is not limited by a bottleneck. */
const UNHINDERED = 0.75;
/** A delay of this much on every packet is a queue, not jitter. */
const DEEP_QUEUE_MS = 150;
/** A limit below this share of the estimate takes effect at once. */
const BY_FAR = 0.7;
/** From this queue on nothing more is sent until it has drained. */
const CLOGGED_QUEUE_MS = 500;
const DRAINED_MS = 100;
/** A queue that has not drained by then belongs to other traffic, or does not exist. */
const LONGEST_WAIT_MS = 3_000;
/** The estimate is this share of what the path carries. */
const CAUTION = 0.85;
/** Without packets there are no reports. After this silence all packets under way have arrived. */
const CLOGGED_SILENCE_MS = 300;
/**
 * A queue that stays this long is more than a burst. Satisfied subscribers tolerate a shorter queue than others, so that on a
 * shared path they are the ones that make room.
 */
const STANDING_MS = 800;
const MIN_PATIENCE_MS = 60;
const MORE_PATIENCE_MS = 80;
/** A queue above the first value is drained within a second, by sending that much less. */
const DRAIN_FROM_MS = 80;
const DRAIN_WITHIN_MS = 600;
/** If sending this share of the rate for this long does not drain the queue, the queue belongs to other traffic. */
const LESS = 0.85;
const LESS_FOR_MS = 1_500;

export type CongestionVerdict = { carried: number; isLimit: boolean; isSudden: boolean };

export class Congestion {
  /** The part of the wanted bitrate that is sent, 0 … 1. */
  satisfaction = 1;
  readonly #trend = new Trendline();
  readonly #arrived = new RateMeter();
  readonly #offered = new RateMeter();
  readonly #bottleneck = new BottleneckDetector();
  #reportedMs = Number.NEGATIVE_INFINITY;
  #sentUpToMs = Number.NEGATIVE_INFINITY;
  #isClogged = false;
  #isSteep = false;
  /** From the first sign of a deep queue until it has drained. */
  #isDeep = false;
  #deepSinceMs = 0;
  #isStanding = false;
  /** Times of the newest packet that has arrived, on two unrelated clocks. */
  #newestSentMs = Number.NEGATIVE_INFINITY;
  #newestArrivedMs = 0;
  #newestSequence = 0;
  #sent: SentPackets | undefined;
  #standingSinceMs: number | undefined;
  /** The queue when the sent rate began to fall, and the rate before. */
  #relief: { atMs: number; queueMs: number; rate: number } | undefined;

  add(packets: AcknowledgedPackets): void {
    const { count, sentAtMs, arrivedAtMs, bytes } = packets;
    for (let i = 0; i < count; i++) {
      const sentMs = sentAtMs[i] as number;
      if (sentMs > this.#sentUpToMs) this.#sentUpToMs = sentMs;
      if (sentMs < this.#newestSentMs || Number.isNaN(arrivedAtMs[i])) continue;
      this.#newestSentMs = sentMs;
      this.#newestArrivedMs = arrivedAtMs[i] as number;
    }
    this.#offered.addAll(bytes, sentAtMs, count);
    this.#arrived.addAll(bytes, arrivedAtMs, count);
    this.#bottleneck.add(packets);
    this.#trend.add(packets);
  }

  reportedUpTo({ baseSequence, count }: TransportFeedback, sent: SentPackets): void {
    this.#sent = sent;
    this.#newestSequence = (baseSequence + count - 1) & 0xffff;
  }

  /** Forgets the measurements from before a silence. */
  restart(): void {
    this.#trend.restart();
    this.#bottleneck.restart();
    this.#standingSinceMs = this.#relief = undefined;
    this.#isDeep = false;
  }

  get arrivingBps(): number {
    return this.#arrived.latestBitsPerSecond();
  }

  /** The arriving rate; 0 before a whole window has been measured. */
  get acknowledgedBps(): number {
    return this.#arrived.isFull ? this.arrivingBps : 0;
  }

  get offeredBps(): number {
    return this.#offered.latestBitsPerSecond();
  }

  /**
   * How long a packet sent now would wait. Most of a deep queue is not reported yet, so packets sent since the last report count
   * with the time that the path takes for them. Without reports nothing waits any more.
   */
  queueMs(estimate: number, nowMs: number): number {
    const silentMs = nowMs - this.#reportedMs;
    const { ms, baseMs } = this.#trend.queue;
    if (!this.#isDeep) return Math.max(0, ms - Math.max(0, silentMs - CLOGGED_SILENCE_MS));
    if (silentMs > CLOGGED_SILENCE_MS) return 0;
    const unreported = this.#sent?.bytesAfter(this.#newestSequence) ?? 0;
    const underWayMs = (unreported * 8000) / (estimate / CAUTION);
    return Math.max(0, this.#newestArrivedMs - baseMs + underWayMs - nowMs);
  }

  isClogged(estimate: number, nowMs: number): boolean {
    return this.#isClogged && this.queueMs(estimate, nowMs) > DRAINED_MS;
  }

  hasDeepQueue(estimate: number, nowMs: number): boolean {
    return this.#isSteep || this.queueMs(estimate, nowMs) > DEEP_QUEUE_MS;
  }

  /** A keyframe that waits until the queue has drained arrives no later than one sent now, and does not lengthen the queue. */
  shouldDeferKeyframes(estimate: number, nowMs: number): boolean {
    const mayWait = this.#isDeep && nowMs - this.#deepSinceMs < LONGEST_WAIT_MS;
    return mayWait && this.queueMs(estimate, nowMs) > DRAINED_MS;
  }

  /** The part of the estimate that may be sent while a queue drains. One video of `least` bits/s continues unless it stands. */
  drainBudget(estimate: number, least: number, nowMs: number): number {
    const share = Math.max(0, 1 - Math.max(0, this.queueMs(estimate, nowMs) - DRAIN_FROM_MS) / DRAIN_WITHIN_MS);
    return this.#isStanding ? estimate * share : Math.max(estimate * share, Math.min(least, estimate));
  }

  /** When the newest reported packet was sent. */
  get reportedUpToMs(): number {
    return this.#sentUpToMs;
  }

  /**
   * Decides after each report whether less has to be sent, and returns how much arrives, in bits/s. `isLimit` says that the path
   * carries no more, whatever was sent; `isSudden` that the estimate was far higher. Packets sent before `lessSinceMs` show nothing
   * about the lower rate since.
   */
  judge(estimated: number, lessSinceMs: number, nowMs: number): CongestionVerdict | undefined {
    // Without reports for a while, a queue may have drained and formed again.
    if (nowMs - this.#reportedMs > CLOGGED_SILENCE_MS) this.#standingSinceMs = this.#relief = undefined;
    this.#reportedMs = nowMs;
    const queueMs = this.#trend.queue.ms;
    const bottleneckBps = this.#bottleneck.carriedBps(this.#trend.queue.baseMs) ?? Number.POSITIVE_INFINITY;
    // On a path that is known to be narrow, every large frame arrives spread out like this.
    this.#isSteep = bottleneckBps < estimated * BY_FAR;
    if (this.#isSteep || queueMs > CLOGGED_QUEUE_MS) {
      if (!this.#isDeep) this.#deepSinceMs = nowMs;
      this.#isDeep = true;
    } else if (this.#trend.queue.latestMs < DRAIN_FROM_MS) this.#isDeep = false;
    const isNew = this.#sentUpToMs > lessSinceMs;
    const isCloggedNow = queueMs > CLOGGED_QUEUE_MS && this.queueMs(estimated, nowMs) > CLOGGED_QUEUE_MS;
    if (isNew && isCloggedNow) this.#isClogged = true;
    else if (queueMs < DEEP_QUEUE_MS) this.#isClogged = false;
    const isStanding = this.#stands(queueMs, nowMs);
    this.#isStanding = isStanding && isNew;
    if (this.#isSteep) return { carried: bottleneckBps, isLimit: true, isSudden: true };
    const isGrowing = this.#trend.signal === "overuse" && queueMs >= this.#patienceMs;
    return isGrowing || this.#isClogged || isStanding
      ? { carried: this.arrivingBps, isLimit: isStanding || this.#isHindered, isSudden: false }
      : undefined;
  }

  /** Is true when the path is the limit, rather than the sender sending little. */
  get #isHindered(): boolean {
    return this.arrivingBps < this.offeredBps * UNHINDERED || this.#trend.queue.ms > DEEP_QUEUE_MS;
  }

  get isGrowthSafe(): boolean {
    return this.#trend.signal === "normal" && this.#standingSinceMs === undefined;
  }

  get #patienceMs(): number {
    return MIN_PATIENCE_MS + MORE_PATIENCE_MS * (1 - this.satisfaction);
  }

  /** A standing queue shows no gradient, however deep it is. */
  #stands(queueMs: number, nowMs: number): boolean {
    if (queueMs < this.#patienceMs) {
      this.#standingSinceMs = this.#relief = undefined;
      return false;
    }
    this.#standingSinceMs ??= nowMs;
    if (this.#isForeign(queueMs, nowMs)) {
      this.#trend.queue.rebase();
      this.#standingSinceMs = this.#relief = undefined;
      this.#isClogged = this.#isDeep = false;
      return false;
    }
    return nowMs - this.#standingSinceMs > STANDING_MS;
  }

  /** The path has become longer, or other traffic fills it: sending less does not help. */
  #isForeign(queueMs: number, nowMs: number): boolean {
    const relief = this.#relief;
    if (relief === undefined || queueMs < relief.queueMs * LESS || this.offeredBps > relief.rate * LESS) {
      if (relief === undefined || queueMs < relief.queueMs * LESS)
        this.#relief = { atMs: nowMs, queueMs, rate: this.offeredBps };
      else relief.atMs = nowMs;
      return false;
    }
    return nowMs - relief.atMs > LESS_FOR_MS;
  }
}
