// When each frame of a stream was made, on the server's clock. RTP timestamps tell how far frames lie apart; the publisher's
// sender reports tell when. Before the first report the arrival of the first packet has to do: the line keeps its shape
// when a report comes, only the place of its beginning becomes exact.

import { timestampDiff } from "../rtp/sequence.ts";
import type { ClockReference } from "../rtp/timestamp-map.ts";

/** Clocks of capture devices run apart from the machine's by some 100 ppm: corrected in steps that nobody hears. */
const DRIFT_STEP_MS = 5;
const DRIFT_TOLERANCE_MS = 10;
/** Further apart than this the stream's clock was set anew. */
const JUMP_MS = 2_000;

export class MediaTime {
  readonly #clockRate: number;
  /** Unwrapped. */
  #timestamp = 0;
  #last: number | null = null;
  /** Server time = offset + timestamp / rate. */
  #offsetMs = 0;
  #isExact = false;
  #expected: ClockReference | null = null;

  constructor(clockRate: number) {
    this.#clockRate = clockRate;
  }

  /** False until the first sender report: times may move, all together. */
  get isExact(): boolean {
    return this.#isExact;
  }

  /** A report from before the first frame. */
  expect(reference: ClockReference): void {
    this.#expected = reference;
  }

  /** Server time of the frame with this RTP timestamp, in milliseconds. Frames come in order. */
  at(timestamp: number, arrivedMs: number): number {
    if (this.#last === null) {
      this.#last = timestamp;
      this.#offsetMs = arrivedMs;
      if (this.#expected) this.report(this.#expected);
    }
    this.#timestamp += timestampDiff(timestamp, this.#last);
    this.#last = timestamp;
    return this.#offsetMs + (this.#timestamp * 1_000) / this.#clockRate;
  }

  /** The clock that reports are told by lies elsewhere by so much. False: no frame lies on it yet. */
  move(byMs: number): boolean {
    if (!this.#isExact) return false;
    this.#offsetMs += byMs;
    return true;
  }

  /**
   * A sender report, its time already on the server's clock. Answers by how much everything before has to be moved, which
   * is not 0 for the first report alone.
   */
  report({ ntpMs, rtpTimestamp }: ClockReference): number {
    if (this.#last === null) {
      this.#expected = { ntpMs, rtpTimestamp };
      return 0;
    }
    const reported = this.#timestamp + timestampDiff(rtpTimestamp, this.#last);
    const apartMs = ntpMs - (this.#offsetMs + (reported * 1_000) / this.#clockRate);
    if (!this.#isExact) {
      this.#isExact = true;
      this.#offsetMs += apartMs;
      return apartMs;
    }
    if (Math.abs(apartMs) > JUMP_MS) this.#offsetMs += apartMs;
    else if (Math.abs(apartMs) > DRIFT_TOLERANCE_MS) this.#offsetMs += Math.sign(apartMs) * DRIFT_STEP_MS;
    return 0;
  }
}
