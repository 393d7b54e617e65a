import type { EndpointRow } from "./store/webhook.table.ts";

/** How many attempts are made at once. */
type SlotLimits = {
  all: number;
  perEndpoint: number;
  /** All endpoints that do not respond share these slots, so that they never delay responsive endpoints. */
  unproven: number;
};

/** With those of pushes no more than the 256 connections that `fetch` keeps open: further requests would wait in its queue unnoticed. */
const WEBHOOK_SLOTS: SlotLimits = { all: 192, perEndpoint: 4, unproven: 128 };
/** At this number the set is cleared, because it also contains deleted endpoints; the others soon respond again. */
const MAX_PROVEN = 10_000;

/**
 * Limits concurrent attempts. An endpoint whose last attempt got a response, of whatever status, is proven and has some
 * slots of its own. Any other endpoint has one slot of those that all unproven endpoints share. To pushes, a push service is
 * one endpoint.
 */
export function createDeliverySlots(limits: SlotLimits = WEBHOOK_SLOTS) {
  const busyOf = new Map<string, number>();
  const proven = new Set<string>();
  let busy = 0;
  let busyUnproven = 0;

  return {
    isFree(endpointId: string): boolean {
      if (busy >= limits.all) return false;
      const own = busyOf.get(endpointId) ?? 0;
      return proven.has(endpointId) ? own < limits.perEndpoint : own < 1 && busyUnproven < limits.unproven;
    },

    /** Takes one of the free slots; the returned function releases it. Pass null if nothing was sent. */
    take(endpointId: string): (responded: boolean | null) => void {
      const unproven = proven.has(endpointId) ? 0 : 1;
      busyOf.set(endpointId, (busyOf.get(endpointId) ?? 0) + 1);
      busy += 1;
      busyUnproven += unproven;
      return (responded) => {
        const left = (busyOf.get(endpointId) ?? 0) - 1;
        if (left > 0) busyOf.set(endpointId, left);
        else busyOf.delete(endpointId);
        busy -= 1;
        busyUnproven -= unproven;
        if (responded === null) return;
        if (proven.size >= MAX_PROVEN) proven.clear();
        if (responded) proven.add(endpointId);
        else proven.delete(endpointId);
      };
    },
  };
}

/** After this many consecutive attempts that did not reach it, an endpoint pauses between attempts. */
const FAILURES_BEFORE_PAUSE = 3;
const MIN_PAUSE_MS = 500;
const MAX_PAUSE_MS = 8_000;
/** Deliveries that an environment may send in one burst beyond its rate. */
const BURST = 2_000;
/** With more environments than this, those within their rate are forgotten. */
const MAX_ENVIRONMENTS = 1_000;

/**
 * Limits the rate of attempts. An attempt costs this server more than the request that causes it: without a limit,
 * fifty endpoints that refuse connections and a message every few milliseconds would use the CPU time of all other
 * projects.
 */
export function createDeliveryThrottle(perSecond: number) {
  const intervalMs = 1_000 / perSecond;
  const unreachable = new Map<string, { failures: number; pausedUntil: number }>();
  const environmentOf = new Map<string, string>();
  /** By environment, the time at which its deliveries so far would be sent at its rate. */
  const spentUntil = new Map<string, number>();

  return {
    /** The time before which the endpoint must not be tried. */
    pausedUntil(endpointId: string, at: number): number {
      const pause = unreachable.get(endpointId)?.pausedUntil ?? 0;
      const spent = spentUntil.get(environmentOf.get(endpointId) ?? "") ?? 0;
      const pausedUntil = Math.max(pause, spent - BURST * intervalMs);
      // A longer pause than the longest means that the clock was set back.
      return pausedUntil - at > MAX_PAUSE_MS ? at : pausedUntil;
    },

    started({ id, projectId, environment }: Pick<EndpointRow, "id" | "projectId" | "environment">, at: number): void {
      const key = `${projectId} ${environment}`;
      environmentOf.set(id, key);
      const spent = Math.min(spentUntil.get(key) ?? 0, at + BURST * intervalMs);
      spentUntil.set(key, Math.max(at, spent) + intervalMs);
      if (spentUntil.size <= MAX_ENVIRONMENTS) return;
      // Deleting an endpoint does not forget its environment, or a new endpoint would get another burst.
      for (const [environment, until] of spentUntil) if (until <= at) spentUntil.delete(environment);
    },

    ended(endpointId: string, responded: boolean, at: number): void {
      if (responded) return void unreachable.delete(endpointId);
      const failures = (unreachable.get(endpointId)?.failures ?? 0) + 1;
      const excess = failures - FAILURES_BEFORE_PAUSE;
      const pauseMs = excess < 0 ? 0 : Math.min(MAX_PAUSE_MS, MIN_PAUSE_MS * 2 ** excess);
      unreachable.set(endpointId, { failures, pausedUntil: at + pauseMs });
    },

    forget(endpointId: string): void {
      unreachable.delete(endpointId);
      environmentOf.delete(endpointId);
    },
  };
}
