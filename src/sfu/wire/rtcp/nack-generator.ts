// Asks a publisher again for what got lost on the way to us: one generator per layer (SSRC). A request is repeated
// about once per round trip, and given up when it cannot help any more; then only a keyframe does.

import { SequenceExtender } from "../rtp/sequence.ts";

/** Packets out of order by less than this are no loss. */
const REORDER_MS = 10;
const MIN_RETRY_MS = 20;
const MAX_RETRY_MS = 250;
const MAX_TRIES = 10;
const MAX_AGE_MS = 1_000;
/** A hole this wide is an outage: asking for every packet would only prolong it. */
const MAX_MISSING = 400;
const DEFAULT_RTT_MS = 100;

interface Missing {
  since: number;
  dueAt: number;
  tries: number;
}

export class NackGenerator {
  readonly #sequence = new SequenceExtender();
  /** By extended sequence number, in ascending order of insertion. */
  readonly #missing = new Map<number, Missing>();
  #rttMs = DEFAULT_RTT_MS;
  #keyframeWanted = false;
  #lastKeyframe = Number.NEGATIVE_INFINITY;
  /** Counters for statistics. */
  requested = 0;
  recovered = 0;
  abandoned = 0;

  setRtt(ms: number): void {
    this.#rttMs = ms;
  }

  /** −1 before the first packet. */
  get highest(): number {
    return this.#sequence.highest;
  }

  /** As `receive` for the next `count` packets. */
  receiveNext(count: number): void {
    this.#sequence.advance(count);
  }

  get missing(): number {
    return this.#missing.size;
  }

  /** True when the packet is news: newer than any, or one that was missing. Else it was here before, or given up. */
  receive(sequenceNumber: number, nowMs: number): boolean {
    const { started, highest } = this.#sequence;
    const extended = this.#sequence.extend(sequenceNumber);
    if (!started) return true;
    if (extended <= highest) {
      const found = this.#missing.get(extended);
      if (found === undefined) return false;
      this.#missing.delete(extended);
      if (found.tries > 0) this.recovered += 1;
      return true;
    }
    const gap = extended - highest - 1;
    if (gap + this.#missing.size > MAX_MISSING) {
      this.abandoned += gap + this.#missing.size;
      this.#missing.clear();
      this.#keyframeWanted = true;
      return true;
    }
    for (let lost = highest + 1; lost < extended; lost++) {
      this.#missing.set(lost, { since: nowMs, dueAt: nowMs + REORDER_MS, tries: 0 });
    }
    return true;
  }

  /** The sequence numbers to ask for now, ascending. Call every 10-20 ms while `missing` is not 0. */
  takeDue(nowMs: number): number[] {
    const due: number[] = [];
    for (const [extended, entry] of this.#missing) {
      if (entry.dueAt > nowMs) continue;
      if (entry.tries >= MAX_TRIES || nowMs - entry.since >= MAX_AGE_MS) {
        this.#missing.delete(extended);
        this.abandoned += 1;
        if (extended > this.#lastKeyframe) this.#keyframeWanted = true;
        continue;
      }
      entry.tries += 1;
      entry.dueAt = nowMs + this.#retryMs(entry.tries);
      due.push(extended & 0xffff);
    }
    this.requested += due.length;
    return due;
  }

  /** A little more than the round trip, longer with each try: an answer on its way must not be asked for again. */
  #retryMs(tries: number): number {
    const pace = this.#rttMs * 1.1 * 1.25 ** (tries - 1);
    return Math.max(MIN_RETRY_MS, Math.min(MAX_RETRY_MS, pace));
  }

  /** What is missing before a keyframe is still asked for, but its loss calls for no other keyframe. */
  keyframeReceived(sequenceNumber: number): void {
    this.#lastKeyframe = Math.max(this.#lastKeyframe, this.#sequence.peek(sequenceNumber));
    this.#keyframeWanted = false;
  }

  get wantsKeyframe(): boolean {
    return this.#keyframeWanted;
  }

  /** True once after packets were given up on: the stream cannot be decoded without a new keyframe. */
  takeKeyframeRequest(): boolean {
    const wanted = this.#keyframeWanted;
    this.#keyframeWanted = false;
    return wanted;
  }

  /** The publisher started anew (other SSRC, sequence restart). */
  reset(): void {
    this.#sequence.reset();
    this.#missing.clear();
    this.#keyframeWanted = false;
    this.#lastKeyframe = Number.NEGATIVE_INFINITY;
  }
}
