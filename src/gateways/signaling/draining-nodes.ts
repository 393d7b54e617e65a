import type { Runtime } from "../../kernel/runtime.ts";
import { every } from "../../kernel/time/timers.ts";
import type { FleetService } from "../../nodes/fleet.ts";
import type { Placements } from "../../nodes/placement.ts";
import type { Membership } from "./membership.ts";
import type { SessionRegistry } from "./rtc-session.ts";

const MOVE_EVERY_MS = 1_000;
/** Of the participants that the node had when it began to drain. */
const MOVED_SHARE = 0.05;

type Deps = {
  fleet: Pick<FleetService, "all">;
  placements: Pick<Placements, "hasAlternative">;
  registry: SessionRegistry;
  membership: Membership;
};

/** The participants of a draining node join again on another one, a few each second. */
export function createDrainingNodes(runtime: Runtime, { fleet, placements, registry, membership }: Deps) {
  /** How many move each second, by node. */
  const rates = new Map<string, number>();

  function move(): void {
    const draining = new Set(fleet.all().flatMap(({ name, draining: drains }) => (drains ? [name] : [])));
    for (const name of rates.keys()) if (!draining.has(name)) rates.delete(name);
    for (const serverName of draining) {
      if (!placements.hasAlternative(serverName)) continue;
      // Clients of WHIP and WHEP cannot be told to join again.
      const sessions = registry
        .sessions()
        .filter(({ site, link }) => site.serverName === serverName && link.state === "attached");
      const perSecond = rates.get(serverName) ?? Math.max(1, Math.ceil(sessions.length * MOVED_SHARE));
      rates.set(serverName, perSecond);
      // Those who publish nothing come first: nobody misses their tracks meanwhile.
      const next = sessions.sort((a, b) => Number(a.tracks.size > 0) - Number(b.tracks.size > 0)).slice(0, perSecond);
      for (const session of next) membership.dismiss(session, "restart");
    }
  }

  /** Returns a function that stops it. */
  return { start: (): (() => void) => every(runtime, MOVE_EVERY_MS, move) };
}
