/**
 * Notices a connection that is up and brings nothing: its checks are answered, but neither packets nor reports arrive although
 * some are due. It happens to browsers after a change of network, and by themselves they stay that way.
 */

const PATIENCE_MS = 5_000;
/** Who hears sound and sends nothing may report as rarely as every seven seconds. */
const SOUND_PATIENCE_MS = 10_000;
const MAX_PATIENCE_MS = 15_000;
/** Some clients report rarely whatever they get: what was usual so far is no stall. */
const USUAL_GAPS = 2.5;
/** Firefox checks every four to six seconds. */
const CHECKED_WITHIN_MS = 8_000;
/** A check so long after the last packet proves that the way is open; when both ended together the network is gone. */
const CHECKED_ALONE_MS = 1_500;
const INTERVAL_MS = 1_000;

export type MediaDuty = {
  /** What the client has to send now, as far as we know: nothing, reports of sound only, or more. */
  due: "nothing" | "reports of sound" | "media";
  /** When its last packet or report came, and its last check; 0 before the first. */
  mediaAtMs: number;
  checkedAtMs: number;
};

export class StallWatch {
  isStalled = false;
  #checkDueMs = 0;
  #dueSinceMs: number | null = null;
  #mediaAtMs = 0;
  #usualGapMs = 0;

  /** True once a second: then `update` is due. */
  isDue(nowMs: number): boolean {
    if (nowMs < this.#checkDueMs) return false;
    this.#checkDueMs = nowMs + INTERVAL_MS;
    return true;
  }

  /** Whether a stall has begun or ended. */
  update({ due, mediaAtMs, checkedAtMs }: MediaDuty, nowMs: number): "stalled" | "flows" | null {
    const came = mediaAtMs > this.#mediaAtMs;
    const gapMs = this.#mediaAtMs === 0 ? 0 : mediaAtMs - this.#mediaAtMs;
    this.#mediaAtMs = mediaAtMs;
    this.#dueSinceMs = due === "nothing" ? null : (this.#dueSinceMs ?? nowMs);
    if (this.isStalled) return came || due === "nothing" ? this.#turn(false) : null;
    if (came && due !== "nothing") this.#usualGapMs = Math.max(this.#usualGapMs, gapMs);
    if (this.#dueSinceMs === null || nowMs - checkedAtMs > CHECKED_WITHIN_MS) return null;
    const leastMs = due === "media" ? PATIENCE_MS : SOUND_PATIENCE_MS;
    const patienceMs = Math.min(MAX_PATIENCE_MS, Math.max(leastMs, this.#usualGapMs * USUAL_GAPS));
    const silentSinceMs = Math.max(this.#dueSinceMs, mediaAtMs);
    if (checkedAtMs - silentSinceMs < CHECKED_ALONE_MS) return null;
    return nowMs - silentSinceMs > patienceMs ? this.#turn(true) : null;
  }

  #turn(isStalled: boolean): "stalled" | "flows" {
    this.isStalled = isStalled;
    return isStalled ? "stalled" : "flows";
  }

  /** Another connection of the same client, with habits of its own. */
  restart(): void {
    this.#dueSinceMs = null;
    this.#mediaAtMs = 0;
    this.#usualGapMs = 0;
  }
}
