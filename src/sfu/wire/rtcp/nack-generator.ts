// Requests lost packets of one stream (SSRC) again. A request is repeated about once per round trip and given up when the packet
// would come too late; then a keyframe is needed.

import { SequenceExtender } from "../rtp/sequence.ts";

const MIN_RETRY_MS = 20;
const MAX_RETRY_MS = 250;
/** A wider gap is an outage, which requests for every packet would only prolong. */
const MAX_MISSING = 400;
const DEFAULT_RTT_MS = 100;

type RepairLimits = {
  /** Packets that are out of order by less than this are not lost. */
  reorderMs: number;
  maxTries: number;
  maxAgeMs: number;
  /** After a packet is given up, the following ones cannot be decoded without a keyframe. */
  needsKeyframe: boolean;
};

export const VIDEO_REPAIR: RepairLimits = { reorderMs: 10, maxTries: 10, maxAgeMs: 1_000, needsKeyframe: true };
/** Late audio is useless after a fraction of a second, and its packets are small, so a lost one is requested at once. */
export const AUDIO_REPAIR: RepairLimits = { reorderMs: 0, maxTries: 2, maxAgeMs: 200, needsKeyframe: false };

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
  requested = 0;
  recovered = 0;
  abandoned = 0;
  /** Since the last call of `takePathLoss`. */
  #lost = 0;
  #countedUpTo = -1;
  readonly #limits: RepairLimits;

  constructor(limits: RepairLimits = VIDEO_REPAIR) {
    this.#limits = limits;
  }

  setRtt(ms: number): void {
    this.#rttMs = ms;
  }

  /** −1 before the first packet. */
  get highest(): number {
    return this.#sequence.highest;
  }

  /** Counts the next `count` packets as received in order. */
  receiveNext(count: number): void {
    this.#sequence.advance(count);
  }

  get missing(): number {
    return this.#missing.size;
  }

  /** Returns true for a new or missing packet, and false for one that was received before or given up. */
  receive(sequenceNumber: number, nowMs: number): boolean {
    const { started, highest } = this.#sequence;
    const extended = this.#sequence.extend(sequenceNumber);
    if (!started) {
      this.#countedUpTo = extended - 1;
      return true;
    }
    if (extended <= highest) {
      const found = this.#missing.get(extended);
      if (found === undefined) return false;
      this.#missing.delete(extended);
      if (found.tries > 0) this.recovered += 1;
      else this.#lost -= 1;
      return true;
    }
    const gap = extended - highest - 1;
    this.#lost += gap;
    if (gap + this.#missing.size > MAX_MISSING) {
      this.abandoned += gap + this.#missing.size;
      this.#missing.clear();
      this.#keyframeWanted = this.#limits.needsKeyframe;
      return true;
    }
    for (let lost = highest + 1; lost < extended; lost++) {
      this.#missing.set(lost, { since: nowMs, dueAt: nowMs + this.#limits.reorderMs, tries: 0 });
    }
    return true;
  }

  /** Returns the sequence numbers to request now, ascending. Called every 10 … 20 ms while `missing` is not 0. */
  takeDue(nowMs: number): number[] {
    const due: number[] = [];
    const { maxTries, maxAgeMs, needsKeyframe } = this.#limits;
    for (const [extended, entry] of this.#missing) {
      if (entry.dueAt > nowMs) continue;
      if (entry.tries >= maxTries || nowMs - entry.since >= maxAgeMs) {
        this.#missing.delete(extended);
        this.abandoned += 1;
        if (needsKeyframe && extended > this.#lastKeyframe) this.#keyframeWanted = true;
        continue;
      }
      entry.tries += 1;
      entry.dueAt = nowMs + this.#retryMs(entry.tries);
      due.push(extended & 0xffff);
    }
    this.requested += due.length;
    return due;
  }

  /** Counts the packets since the last call, and those of them that did not arrive when they were first sent. */
  takePathLoss(): { expected: number; lost: number } {
    const { highest } = this.#sequence;
    const counted = { expected: Math.max(0, highest - this.#countedUpTo), lost: Math.max(0, this.#lost) };
    this.#countedUpTo = highest;
    this.#lost = 0;
    return counted;
  }

  /** A little more than the round trip and longer with each try, so that a packet on its way is not requested again. */
  #retryMs(tries: number): number {
    return Math.max(MIN_RETRY_MS, Math.min(MAX_RETRY_MS, this.#rttMs * 1.1 * 1.25 ** (tries - 1)));
  }

  /** Packets missing before a keyframe are still requested, but giving them up needs no other keyframe. */
  keyframeReceived(sequenceNumber: number): void {
    this.#lastKeyframe = Math.max(this.#lastKeyframe, this.#sequence.peek(sequenceNumber));
    this.#keyframeWanted = false;
  }

  get wantsKeyframe(): boolean {
    return this.#keyframeWanted;
  }

  /** Returns true once after packets were given up: the stream cannot be decoded without a new keyframe. */
  takeKeyframeRequest(): boolean {
    const wanted = this.#keyframeWanted;
    this.#keyframeWanted = false;
    return wanted;
  }

  /** Starts again for a stream with another SSRC. */
  reset(): void {
    this.#sequence.reset();
    this.#missing.clear();
    this.#keyframeWanted = false;
    this.#lastKeyframe = Number.NEGATIVE_INFINITY;
    this.#countedUpTo = -1;
    this.#lost = 0;
  }
}
