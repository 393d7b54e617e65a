import type { Leadership } from "../kernel/db/commit-log.ts";

/** How often the thread shows that it runs. */
const TURN_MS = 250;

/**
 * A process that slept, or a thread that stood still, may have been overtaken without knowing: until the log has
 * confirmed that this server still leads, nothing is answered. A log that is away while the thread runs is another
 * matter: what is here stays true for as long as nobody else can write.
 */
export function createFence(leadership: Leadership, leaseMs: number) {
  const now = () => Math.max(performance.now(), Date.now() - startedAt);
  const startedAt = Date.now() - performance.now();
  let turnedAt = now();
  let fenced = false;

  function look(): boolean {
    const at = now();
    const slept = at - turnedAt > leaseMs / 2;
    turnedAt = at;
    if (slept && !fenced) {
      fenced = true;
      void lift();
    }
    return fenced;
  }

  async function lift(): Promise<void> {
    while (fenced) {
      await leadership.confirm();
      if (leadership.unsureSince === null) fenced = false;
      else await Bun.sleep(TURN_MS);
    }
  }

  const timer = setInterval(look, TURN_MS);
  timer.unref();
  return {
    isStale: look,
    stop() {
      clearInterval(timer);
      // Whoever is still here after the end gets no answer.
      fenced = true;
    },
  };
}
