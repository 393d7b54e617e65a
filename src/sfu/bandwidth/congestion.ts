// Does more go onto the path than it carries? Four signs of it, from the fastest to the most patient: packets that arrive
// far more slowly than they were sent, a delay that grows, a queue too deep to add to, and one that only stands there.

import type { AcknowledgedPackets, SentPackets, TransportFeedback } from "../wire/rtcp/twcc-feedback.ts";
import { Narrowing } from "./narrowing.ts";
import { RateMeter } from "./rate-meter.ts";
import { Trendline } from "./trendline.ts";

/** Arriving at this share of the rate it was sent at, nothing waits for a narrow link. */
const UNHINDERED = 0.75;
/** No jitter makes every packet wait this long. */
const DEEP_QUEUE_MS = 150;
/** A limit below this share of the estimate leaves no time to wait and see. */
const BY_FAR = 0.7;
/** From here on nothing more is added to what waits, until it has gone. */
const CLOGGED_QUEUE_MS = 500;
/** Little enough for the next to be added. */
const GONE_MS = 100;
/** A queue that has not gone by then is somebody else's, or none. */
const LONGEST_WAIT_MS = 3_000;
/** What is estimated is so much of what the path carries. */
const CAUTION = 0.85;
/** Nothing is reported any more where nothing is sent: by then what was under way has arrived. */
const CLOGGED_SILENCE_MS = 300;
/**
 * A queue that stays for so long is more than a burst. Those who have much of what they want take less of it than those who have
 * little: on a path they share, the former make room.
 */
const STANDING_MS = 800;
const LEAST_PATIENCE_MS = 60;
const MORE_PATIENCE_MS = 80;
/** What waits goes within this time, as so much less is sent than the path carries. */
const DRAIN_FROM_MS = 80;
const DRAIN_WITHIN_MS = 600;
/** Sending so much less for so long would have emptied a queue of ours. */
const LESS = 0.85;
const LESS_FOR_MS = 1_500;

export type Verdict = { carried: number; isLimit: boolean; isSudden: boolean };

export class Congestion {
  /** The share of what is wanted that is sent, 0 … 1. */
  satisfaction = 1;
  readonly #trend = new Trendline();
  readonly #arrived = new RateMeter();
  readonly #offered = new RateMeter();
  readonly #narrowing = new Narrowing();
  #reportedMs = Number.NEGATIVE_INFINITY;
  #sentUpToMs = Number.NEGATIVE_INFINITY;
  #isClogged = false;
  #isSteep = false;
  /** From the first sign of a deep queue until it has gone. */
  #isDeep = false;
  #deepSinceMs = 0;
  #isStanding = false;
  /** Of the newest packet that has arrived, on clocks that have nothing to do with each other. */
  #newestSentMs = Number.NEGATIVE_INFINITY;
  #newestArrivedMs = 0;
  #newestSequence = 0;
  #sent: SentPackets | undefined;
  #standingSinceMs: number | undefined;
  /** The queue when less began to be sent, and the rate before. */
  #relief: { atMs: number; queueMs: number; rate: number } | undefined;

  /** A probe is meant to queue for a moment: it says nothing about the media. */
  add(packets: AcknowledgedPackets): void {
    const { count, sentAtMs, arrivedAtMs, bytes } = packets;
    for (let i = packets.isPlain ? count - 1 : 0; i < count; i++) {
      const sentMs = sentAtMs[i] as number;
      if (sentMs > this.#sentUpToMs) this.#sentUpToMs = sentMs;
      if (sentMs < this.#newestSentMs || Number.isNaN(arrivedAtMs[i])) continue;
      this.#newestSentMs = sentMs;
      this.#newestArrivedMs = arrivedAtMs[i] as number;
    }
    this.#offered.addAll(bytes, sentAtMs, count);
    this.#arrived.addAll(bytes, arrivedAtMs, count);
    this.#narrowing.add(packets);
    this.#trend.add(packets);
  }

  reportedUpTo({ baseSequence, count }: TransportFeedback, sent: SentPackets): void {
    this.#sent = sent;
    this.#newestSequence = (baseSequence + count - 1) & 0xffff;
  }

  /** After a silence: what was seen before it says nothing of the path any more. */
  restart(): void {
    this.#trend.restart();
    this.#narrowing.restart();
    this.#standingSinceMs = this.#relief = undefined;
    this.#isDeep = false;
  }

  get arrivingBps(): number {
    return this.#arrived.latestBitsPerSecond();
  }

  /** What is certain to arrive; 0 before there was time to see. */
  get acknowledgedBps(): number {
    return this.#arrived.isFull ? this.arrivingBps : 0;
  }

  get offeredBps(): number {
    return this.#offered.latestBitsPerSecond();
  }

  /**
   * How long a packet sent now would wait. Of a deep queue most has not been reported on yet: what was sent since takes as long
   * as the path takes for it. Nothing waits any more once nothing is reported.
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

  /** More waits on the way than anybody wants to look at, and has not had the time to go. */
  isClogged(estimate: number, nowMs: number): boolean {
    return this.#isClogged && this.queueMs(estimate, nowMs) > GONE_MS;
  }

  hasDeepQueue(estimate: number, nowMs: number): boolean {
    return this.#isSteep || this.queueMs(estimate, nowMs) > DEEP_QUEUE_MS;
  }

  /** A keyframe that waits until the queue has gone comes no later, and does not make it longer. */
  isToWait(estimate: number, nowMs: number): boolean {
    const isPatient = this.#isDeep && nowMs - this.#deepSinceMs < LONGEST_WAIT_MS;
    return isPatient && this.queueMs(estimate, nowMs) > GONE_MS;
  }

  /** What of the estimate may be sent while a queue is to go. The one picture that takes `least` stays, unless the queue does. */
  draining(estimate: number, least: number, nowMs: number): number {
    const share = Math.max(0, 1 - Math.max(0, this.queueMs(estimate, nowMs) - DRAIN_FROM_MS) / DRAIN_WITHIN_MS);
    return this.#isStanding ? estimate * share : Math.max(estimate * share, Math.min(least, estimate));
  }

  /** When the newest packet was sent that has been reported on. */
  get reportedUpToMs(): number {
    return this.#sentUpToMs;
  }

  /**
   * Call once a report has been taken in: whether less has to be sent, and how much came through, in bits/s. `isLimit`: that is
   * all the path carries, whatever was sent; `isSudden`: it was `estimated` to carry far more. `lessSinceMs`: what was sent before
   * says nothing of what is sent since.
   */
  judge(estimated: number, lessSinceMs: number, nowMs: number): Verdict | undefined {
    // A queue that nobody looked at for a while may have gone and come.
    if (nowMs - this.#reportedMs > CLOGGED_SILENCE_MS) this.#standingSinceMs = this.#relief = undefined;
    this.#reportedMs = nowMs;
    const queueMs = this.#trend.queue.ms;
    const narrowed = this.#narrowing.carried(this.#trend.queue.baseMs) ?? Number.POSITIVE_INFINITY;
    // On a path known to be narrow any large frame arrives like this.
    this.#isSteep = narrowed < estimated * BY_FAR;
    if (this.#isSteep || queueMs > CLOGGED_QUEUE_MS) {
      if (!this.#isDeep) this.#deepSinceMs = nowMs;
      this.#isDeep = true;
    } else if (this.#trend.queue.latestMs < DRAIN_FROM_MS) this.#isDeep = false;
    const isNews = this.#sentUpToMs > lessSinceMs;
    const isCloggedNow = queueMs > CLOGGED_QUEUE_MS && this.queueMs(estimated, nowMs) > CLOGGED_QUEUE_MS;
    if (isNews && isCloggedNow) this.#isClogged = true;
    else if (queueMs < DEEP_QUEUE_MS) this.#isClogged = false;
    const isStanding = this.#stands(queueMs, nowMs);
    this.#isStanding = isStanding && isNews;
    if (this.#isSteep) return { carried: narrowed, isLimit: true, isSudden: true };
    const isGrowing = this.#trend.signal === "overuse" && queueMs >= this.#patienceMs;
    return isGrowing || this.#isClogged || isStanding
      ? { carried: this.arrivingBps, isLimit: isStanding || this.#isHindered, isSudden: false }
      : undefined;
  }

  /** Whether what arrives is all that the path carries; when little is sent, little arrives. */
  get #isHindered(): boolean {
    return this.arrivingBps < this.offeredBps * UNHINDERED || this.#trend.queue.ms > DEEP_QUEUE_MS;
  }

  get isGrowthSafe(): boolean {
    return this.#trend.signal === "normal" && this.#standingSinceMs === undefined;
  }

  get #patienceMs(): number {
    return LEAST_PATIENCE_MS + MORE_PATIENCE_MS * (1 - this.satisfaction);
  }

  /** A queue that only stands there shows no gradient, however deep it is. */
  #stands(queueMs: number, nowMs: number): boolean {
    if (queueMs < this.#patienceMs) {
      this.#standingSinceMs = this.#relief = undefined;
      return false;
    }
    this.#standingSinceMs ??= nowMs;
    if (this.#isOfOthers(queueMs, nowMs)) {
      this.#trend.queue.rebase();
      this.#standingSinceMs = this.#relief = undefined;
      this.#isClogged = this.#isDeep = false;
      return false;
    }
    return nowMs - this.#standingSinceMs > STANDING_MS;
  }

  /** The path has become longer, or somebody else fills it: sending less does not help. */
  #isOfOthers(queueMs: number, nowMs: number): boolean {
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
