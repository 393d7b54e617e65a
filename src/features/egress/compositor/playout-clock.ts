/**
 * Maps the RTP timestamps of a participant's tracks to this machine's clock. Sender reports place the tracks on one clock; the
 * relation of that clock to ours is estimated by the least delay of any packet.
 */
import { timestampDiff } from "../../../sfu/wire/rtp/sequence.ts";

/** The least delay rises by this share of the elapsed time, because clocks drift apart and routes change. */
const FORGET = 0.001;

export class LeastDelay {
  #ms: number | null = null;
  #atMs = 0;

  /** Takes a delay measured now, and returns the least delay. */
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
  /** The newest packet; nothing else is known before the first report. */
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
