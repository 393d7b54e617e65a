import type { Leadership } from "../kernel/db/commit-log.ts";
import type { Fence } from "../kernel/socket/sockets.ts";
import { createElapsed } from "../kernel/time/elapsed.ts";
import { ABSTAIN_MS, type PeerAbstentions } from "./abstention.ts";

const CHECK_EVERY_MS = 250;
/** The clocks of two machines drift; this much of a lease is kept as a margin. */
const MARGIN_MS = 500;
const WAIT_MS = 5_000;

type FenceDeps = {
  leadership: Leadership;
  askPeers: () => Promise<PeerAbstentions>;
  leaseMs: number;
  onOtherLeader: (reason: string) => void;
};

/**
 * The leader's data is current only while no other server can become leader: for one lease after the log confirmed the
 * leadership or, when the log is unreachable, while every other member promises not to become leader. At other times
 * the leader does not respond.
 */
export function createFence({ leadership, askPeers, leaseMs, onOtherLeader }: FenceDeps): Fence & { stop(): void } {
  const elapsed = createElapsed();
  let promisedUntil = 0;
  let stopped = false;
  let confirming = false;
  let waiting: ((isFresh: boolean) => void)[] = [];

  const leftMs = () => Math.max(leadership.sureForMs() - MARGIN_MS, promisedUntil - elapsed() - MARGIN_MS);
  const isStale = () => stopped || leftMs() <= 0;

  function resolveWaiting(isFresh: boolean): void {
    const resolvers = waiting;
    waiting = [];
    for (const resolve of resolvers) resolve(isFresh);
  }

  function settle(): void {
    if (!isStale()) resolveWaiting(true);
  }

  /** Queries the log and the peers at the same time; either can confirm. */
  async function confirm(): Promise<void> {
    if (confirming || stopped) return;
    confirming = true;
    const confirmed = leadership.confirm().then(settle);
    const askedAt = elapsed();
    const { all, otherLeader } = await askPeers();
    if (otherLeader !== null) onOtherLeader(`${otherLeader} leads, and the log cannot be reached from here`);
    else if (all) promisedUntil = askedAt + ABSTAIN_MS;
    settle();
    await Promise.race([confirmed, Bun.sleep(CHECK_EVERY_MS)]);
    confirming = false;
  }

  const timer = setInterval(() => {
    settle();
    if (leftMs() < leaseMs / 2) void confirm();
  }, CHECK_EVERY_MS);
  timer.unref();

  return {
    isStale,
    fresh() {
      if (!isStale()) return Promise.resolve(true);
      if (stopped) return Promise.resolve(false);
      const { promise, resolve } = Promise.withResolvers<boolean>();
      waiting.push(resolve);
      const timeout = setTimeout(() => resolve(false), WAIT_MS);
      void confirm();
      return promise.finally(() => clearTimeout(timeout));
    },
    stop() {
      clearInterval(timer);
      stopped = true;
      resolveWaiting(false);
    },
  };
}
