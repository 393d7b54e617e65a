/**
 * How much later than it was heard the reports of a stream have its sound. Browsers do not know when they heard it: they report
 * that the first sample of a packet was there when the packet was sent, which is not before its last one was. Whether a sender
 * does so is seen: a report that has the end of what was already sent in the future cannot be right. Besides that, Opus gives
 * back what it was given a little later, and leaves it to whoever decodes to count that off.
 */

import type { Span } from "../wire/frames/frame.ts";
import { opusDurationMs } from "../wire/frames/opus-frames.ts";
import { timestampDiff } from "../wire/rtp/sequence.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";

/** RFC 7845 §4.2: the encoder's look-ahead, 312 samples at 48 kHz of the one that all browsers have. */
const LOOK_AHEAD_MS = 6.5;
/** What is sent in a packet unless somebody asked for something else. */
const USUAL_PACKET_MS = 20;
/** So long after the last packet a report says nothing: there was silence, or what came between was lost. */
const RECENT_MS = 100;
/** A packet that overtook its report, or was lost before it, is outvoted by as many others. */
const MOST_VOTES = 3;

export class SoundLag {
  readonly #clockRate: number;
  #newest: number | null = null;
  #packetMs = USUAL_PACKET_MS;
  #judged: number | null = null;
  /** For a sender that reports when it sends; less than 0 against it. Browsers do: two reports have to say otherwise. */
  #votes = 1;

  constructor(clockRate: number) {
    this.#clockRate = clockRate;
  }

  /** To be counted off what reports say. */
  get ms(): number {
    return LOOK_AHEAD_MS + (this.#votes >= 0 ? this.#packetMs : 0);
  }

  sent(timestamp: number, packet: Span): void {
    if (this.#newest !== null && timestampDiff(timestamp, this.#newest) < 0) return;
    this.#newest = timestamp;
    this.#packetMs = opusDurationMs([packet]);
  }

  /** A report as it came. The same one may be told again, on a clock that is known better. */
  judge({ rtpTimestamp }: ClockReference): void {
    if (this.#newest === null || rtpTimestamp === this.#judged) return;
    this.#judged = rtpTimestamp;
    const sinceMs = (timestampDiff(rtpTimestamp, this.#newest) * 1_000) / this.#clockRate;
    if (sinceMs <= -this.#packetMs || sinceMs >= RECENT_MS) return;
    const vote = sinceMs < this.#packetMs ? 1 : -1;
    this.#votes = Math.max(-MOST_VOTES, Math.min(MOST_VOTES, this.#votes + vote));
  }
}
