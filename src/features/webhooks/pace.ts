import type { EndpointRow } from "./store/webhook.table.ts";

/** An endpoint may fail to answer so often in a row before it has to rest between attempts. */
const UNANSWERED_AT_ONCE = 3;
const FIRST_REST_MS = 500;
const LONGEST_REST_MS = 8_000;
/** What an environment may have sent at once, beyond its rate. */
const BURST = 2_000;
/** Environments above which those that owe nothing are forgotten. */
const REMEMBERED = 1_000;

type Sent = Pick<EndpointRow, "id" | "projectId" | "environment">;

/**
 * How fast deliveries are tried. Each costs this server more than it costs whoever caused it: fifty endpoints that refuse
 * at once, and a message every few milliseconds, would take the processor from everybody else's.
 */
export type Pace = {
  /** The endpoint, or its environment, rests until then; not after `at` when it may be tried. */
  restsUntil(endpointId: string, at: number): number;
  sent(endpoint: Sent, at: number): void;
  ended(endpointId: string, answered: boolean, at: number): void;
  /** For an endpoint that is gone. */
  forget(endpointId: string): void;
};

export function createPace(perSecond: number): Pace {
  const everyMs = 1_000 / perSecond;
  /** Endpoints whose last attempts were not answered. */
  const silent = new Map<string, { unanswered: number; restsUntil: number }>();
  const environmentOf = new Map<string, string>();
  /** By environment: when what it has sent would be over at its rate. */
  const spentUntil = new Map<string, number>();

  return {
    restsUntil(endpointId, at) {
      const rest = silent.get(endpointId)?.restsUntil ?? 0;
      const spent = spentUntil.get(environmentOf.get(endpointId) ?? "") ?? 0;
      const restsUntil = Math.max(rest, spent - BURST * everyMs);
      // Longer than anybody ever has to: the clock was set back.
      return restsUntil - at > LONGEST_REST_MS ? at : restsUntil;
    },

    sent({ id, projectId, environment }, at) {
      const key = `${projectId} ${environment}`;
      environmentOf.set(id, key);
      const spent = Math.min(spentUntil.get(key) ?? 0, at + BURST * everyMs);
      spentUntil.set(key, Math.max(at, spent) + everyMs);
      if (spentUntil.size <= REMEMBERED) return;
      // Not with its endpoint: whoever made another one would begin anew.
      for (const [environment, until] of spentUntil) if (until <= at) spentUntil.delete(environment);
    },

    ended(endpointId, answered, at) {
      if (answered) return void silent.delete(endpointId);
      const unanswered = (silent.get(endpointId)?.unanswered ?? 0) + 1;
      const beyond = unanswered - UNANSWERED_AT_ONCE;
      const restMs = beyond < 0 ? 0 : Math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ** beyond);
      silent.set(endpointId, { unanswered, restsUntil: at + restMs });
    },

    forget(endpointId) {
      silent.delete(endpointId);
      environmentOf.delete(endpointId);
    },
  };
}
