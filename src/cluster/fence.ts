import type { Leadership } from "../kernel/db/commit-log.ts";
import { createElapsed } from "../kernel/db/elapsed.ts";
import type { Fence } from "../kernel/db/fence.ts";
import { ABSTAIN_MS } from "./abstention.ts";
import type { PeersAnswer } from "./peers.ts";

/** How often the fence looks whether it has to ask somebody. */
const TURN_MS = 250;
/** Clocks of two machines run at nearly the same pace; this much of a lease is left for the rest. */
const MARGIN_MS = 500;
/** Whoever asks at a moment of doubt waits this long for it to end. */
const PATIENCE_MS = 5_000;

type FenceDeps = {
  leadership: Leadership;
  askPeers: () => Promise<PeersAnswer>;
  leaseMs: number;
  onOther: (reason: string) => void;
};

/**
 * What is known here is true only while no other server can lead: for the time of a lease after the log has confirmed
 * that this one does. When the log is away the other servers can say the same by promising not to lead. In between
 * nothing is answered.
 */
export function createFence({ leadership, askPeers, leaseMs, onOther }: FenceDeps): Fence & { stop(): void } {
  const elapsed = createElapsed();
  let promisedUntil = 0;
  let ended = false;
  let asking = false;
  let waiting: ((isFresh: boolean) => void)[] = [];

  const leftMs = () => Math.max(leadership.sureForMs() - MARGIN_MS, promisedUntil - elapsed() - MARGIN_MS);
  const isStale = () => ended || leftMs() <= 0;

  function tell(isFresh: boolean): void {
    const told = waiting;
    waiting = [];
    for (const tellOne of told) tellOne(isFresh);
  }

  /** Of the log and of the others at the same time: whichever answers first ends the doubt. */
  async function ask(): Promise<void> {
    if (asking || ended) return;
    asking = true;
    const confirmed = leadership.confirm().then(settle);
    const askedAt = elapsed();
    const { all, other } = await askPeers();
    if (other !== null) onOther(`${other} leads, and the log cannot be reached from here`);
    else if (all) promisedUntil = askedAt + ABSTAIN_MS;
    settle();
    await Promise.race([confirmed, Bun.sleep(TURN_MS)]);
    asking = false;
  }

  function settle(): void {
    if (!isStale()) tell(true);
  }

  const timer = setInterval(() => {
    settle();
    if (leftMs() < leaseMs / 2) void ask();
  }, TURN_MS);
  timer.unref();

  return {
    isStale,
    fresh() {
      if (!isStale()) return Promise.resolve(true);
      if (ended) return Promise.resolve(false);
      const { promise, resolve } = Promise.withResolvers<boolean>();
      waiting.push(resolve);
      const late = setTimeout(() => resolve(false), PATIENCE_MS);
      void ask();
      return promise.finally(() => clearTimeout(late));
    },
    stop() {
      clearInterval(timer);
      // Whoever is still here after the end gets no answer.
      ended = true;
      tell(false);
    },
  };
}
