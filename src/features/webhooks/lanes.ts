/** Below the 256 connections that fetch keeps open at a time: past those, requests would wait unseen in its queue. */
const LANES = 192;
const LANES_PER_ENDPOINT = 4;
/** What endpoints that do not answer may occupy together, so that they never delay those that do. */
const UNPROVEN_LANES = 128;
/** Endpoints come and go; past so many all of them earn it again. */
const MOST_PROVEN = 10_000;

/**
 * Who may send now. An endpoint earns its four lanes by answering, with whatever status; until its last attempt was
 * answered it has one, and shares a part of the whole with others like it.
 */
type Lanes = {
  free(endpointId: string): boolean;
  /** Takes one of the free lanes; the returned function gives it back. */
  take(endpointId: string): (answered: boolean) => void;
};

export function createLanes(): Lanes {
  const busyOf = new Map<string, number>();
  const proven = new Set<string>();
  let busy = 0;
  let busyUnproven = 0;

  return {
    free(endpointId) {
      if (busy >= LANES) return false;
      const own = busyOf.get(endpointId) ?? 0;
      return proven.has(endpointId) ? own < LANES_PER_ENDPOINT : own < 1 && busyUnproven < UNPROVEN_LANES;
    },

    take(endpointId) {
      const unproven = proven.has(endpointId) ? 0 : 1;
      busyOf.set(endpointId, (busyOf.get(endpointId) ?? 0) + 1);
      busy += 1;
      busyUnproven += unproven;
      return (answered) => {
        const left = (busyOf.get(endpointId) ?? 0) - 1;
        if (left > 0) busyOf.set(endpointId, left);
        else busyOf.delete(endpointId);
        busy -= 1;
        busyUnproven -= unproven;
        if (proven.size >= MOST_PROVEN) proven.clear();
        if (answered) proven.add(endpointId);
        else proven.delete(endpointId);
      };
    },
  };
}
