/**
 * Maps the RTP timestamps of a participant's tracks to this machine's clock. Sender reports place its tracks on one clock; how that
 * clock relates to ours is the least delay that any of its packets had.
 */
import { timestampDiff } from "../../../sfu/wire/rtp/sequence.ts";

/** The least delay rises by this share of the time that passes, because clocks drift apart and routes change. */
const FORGET = 0.001;

export class LeastDelay {
  #ms: number | null = null;
  #atMs = 0;

  /** Takes a delay that was measured now, and returns the least one. */
  measured(ms: number, nowMs: number): number {
    const risen = this.#ms === null ? ms : this.#ms + Math.max(0, nowMs - this.#atMs) * FORGET;
    this.#ms = Math.min(ms, risen);
    this.#atMs = nowMs;
    return this.#ms;
  }
}

type Reference = { ntpMs: number; rtpTimestamp: number };

export class TrackClock {
  readonly #clockRate: number;
  /** Shared by all tracks of the participant. */
  readonly #participant: LeastDelay;
  readonly #own = new LeastDelay();
  #report: Reference | null = null;
  /** The newest packet; before the first report nothing else is known. */
  #newest: Reference | null = null;

  constructor(clockRate: number, participant: LeastDelay) {
    this.#clockRate = clockRate;
    this.#participant = participant;
  }

  report(ntpMs: number, rtpTimestamp: number): void {
    this.#report = { ntpMs, rtpTimestamp };
  }

  /** The time on this machine's clock at which the frame would have arrived with the least delay. */
  at(timestamp: number, nowMs: number): number {
    const reference = this.#report ?? this.#newest ?? { ntpMs: nowMs, rtpTimestamp: timestamp };
    const sentMs = reference.ntpMs + (timestampDiff(timestamp, reference.rtpTimestamp) * 1_000) / this.#clockRate;
    this.#newest = { ntpMs: sentMs, rtpTimestamp: timestamp };
    const delay = this.#report ? this.#participant : this.#own;
    return sentMs + delay.measured(nowMs - sentMs, nowMs);
  }
}
