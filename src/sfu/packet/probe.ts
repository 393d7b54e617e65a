// Is there room for more than we send? A short burst of padding is sent faster than the estimate, and the rate at
// which it arrives tells. Without transport-wide feedback the higher layer itself is tried for a moment. Either way a
// failure makes the next attempt later: never so late that a link which has recovered goes unnoticed.

const FIRST_INTERVAL_MS = 3_000;
const MAX_INTERVAL_MS = 8_000;
const PROBE_MS = 60;
const MIN_PROBE_PACKETS = 5;
const PROBE_PACKET_BYTES = 1_000;
const RESULT_TIMEOUT_MS = 1_500;
export const TRIAL_MS = 2_500;

export interface ProbePlan {
  /** Goes with every packet of the probe to `SentPackets.next`. */
  id: number;
  bitrate: number;
  packets: number;
  packetBytes: number;
  /** Spread evenly over this time. */
  durationMs: number;
}

/** When the next attempt may be made. */
export class UpgradeSchedule {
  #intervalMs = FIRST_INTERVAL_MS;
  #notBeforeMs = 0;

  isDue(nowMs: number): boolean {
    return nowMs >= this.#notBeforeMs;
  }

  begun(nowMs: number): void {
    this.#notBeforeMs = nowMs + this.#intervalMs;
  }

  failed(nowMs: number): void {
    this.#intervalMs = Math.min(MAX_INTERVAL_MS, this.#intervalMs * 1.5);
    this.#notBeforeMs = nowMs + this.#intervalMs;
  }

  /** What worked once may be followed by the next step at once. */
  succeeded(nowMs: number): void {
    this.#intervalMs = FIRST_INTERVAL_MS;
    this.#notBeforeMs = nowMs + 500;
  }
}

/** One probe under way, measured from the viewer's feedback. */
export class ProbeMeasurement {
  readonly plan: ProbePlan;
  readonly #startedMs: number;
  #reported = 0;
  #arrived = 0;
  #bytes = 0;
  #firstSent = Number.POSITIVE_INFINITY;
  #lastSent = Number.NEGATIVE_INFINITY;
  #firstArrived = Number.POSITIVE_INFINITY;
  #lastArrived = Number.NEGATIVE_INFINITY;

  constructor(id: number, bitrate: number, nowMs: number) {
    const bytes = (bitrate * PROBE_MS) / 8000;
    const packets = Math.max(MIN_PROBE_PACKETS, Math.ceil(bytes / PROBE_PACKET_BYTES));
    this.plan = {
      id,
      bitrate,
      packets,
      packetBytes: PROBE_PACKET_BYTES,
      durationMs: (packets * PROBE_PACKET_BYTES * 8000) / bitrate,
    };
    this.#startedMs = nowMs;
  }

  add(sentMs: number, arrivedMs: number, bytes: number): void {
    this.#reported += 1;
    if (Number.isNaN(arrivedMs)) return;
    this.#arrived += 1;
    this.#bytes += bytes;
    this.#firstSent = Math.min(this.#firstSent, sentMs);
    this.#lastSent = Math.max(this.#lastSent, sentMs);
    this.#firstArrived = Math.min(this.#firstArrived, arrivedMs);
    this.#lastArrived = Math.max(this.#lastArrived, arrivedMs);
  }

  isOver(nowMs: number): boolean {
    return this.#reported >= this.plan.packets || nowMs - this.#startedMs > this.plan.durationMs + RESULT_TIMEOUT_MS;
  }

  /** Bits/s the path carried, or undefined when too little came through to tell. */
  result(): number | undefined {
    if (this.#arrived < Math.max(MIN_PROBE_PACKETS - 1, this.plan.packets * 0.8)) return undefined;
    const sendMs = this.#lastSent - this.#firstSent;
    const receiveMs = this.#lastArrived - this.#firstArrived;
    if (sendMs <= 0 || receiveMs <= 0) return undefined;
    // The first packet opens the interval; it is not part of what was carried in it.
    const bits = this.#bytes * 8 * (1 - 1 / this.#arrived);
    const sent = (bits * 1000) / sendMs;
    const received = (bits * 1000) / receiveMs;
    return received < sent * 0.9 ? received * 0.95 : Math.min(sent, received);
  }
}
