import type { Span } from "../wire/frames/frame.ts";
import { opusDurationMs } from "../wire/frames/opus-frames.ts";
import { timestampDiff } from "../wire/rtp/sequence.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";

/** The look-ahead of the Opus encoder that all browsers have, 312 samples at 48 kHz (RFC 7845 §4.2), which decoders do not remove. */
const LOOK_AHEAD_MS = 6.5;
const DEFAULT_PACKET_MS = 20;
/** A report this long after the last packet is not judged: there was silence, or packets were lost. */
const RECENT_MS = 100;
/** Reports that were reordered with packets are outvoted by as many others. */
const MAX_VOTES = 3;

/**
 * How much later than its capture the sender reports place a stream's audio. Browsers report that the first sample of a packet was
 * captured when the packet was sent, which is after its last sample. Such a sender is recognised by reports that place the end of
 * already sent packets in the future.
 */
export class AudioLag {
  readonly #clockRate: number;
  #newest: number | null = null;
  #packetMs = DEFAULT_PACKET_MS;
  #judged: number | null = null;
  /** Negative for a sender that reports capture times. Browsers do not, so two reports have to contradict the default. */
  #votes = 1;

  constructor(clockRate: number) {
    this.#clockRate = clockRate;
  }

  /** The time to subtract from reports. */
  get ms(): number {
    return LOOK_AHEAD_MS + (this.#votes >= 0 ? this.#packetMs : 0);
  }

  sent(timestamp: number, packet: Span): void {
    if (this.#newest !== null && timestampDiff(timestamp, this.#newest) < 0) return;
    this.#newest = timestamp;
    this.#packetMs = opusDurationMs([packet]);
  }

  /** Judges a sender report; one that is repeated on a corrected clock is ignored. */
  judge({ rtpTimestamp }: ClockReference): void {
    if (this.#newest === null || rtpTimestamp === this.#judged) return;
    this.#judged = rtpTimestamp;
    const sinceMs = (timestampDiff(rtpTimestamp, this.#newest) * 1_000) / this.#clockRate;
    if (sinceMs <= -this.#packetMs || sinceMs >= RECENT_MS) return;
    const vote = sinceMs < this.#packetMs ? 1 : -1;
    this.#votes = Math.max(-MAX_VOTES, Math.min(MAX_VOTES, this.#votes + vote));
  }
}
