import type { Runtime } from "../../kernel/runtime.ts";
import { every } from "../../kernel/time/timers.ts";
import type { FleetService } from "../../nodes/fleet.ts";
import type { Placements } from "../../nodes/placement.ts";
import type { Membership } from "./membership.ts";
import type { SessionRegistry } from "./rtc-session.ts";

const MOVE_EVERY_MS = 1_000;
/** The share that moves each second, of the participants that the node had when it began to drain. */
const MOVED_SHARE = 0.05;

type Deps = {
  fleet: Pick<FleetService, "all">;
  placements: Pick<Placements, "hasAlternative">;
  registry: SessionRegistry;
  membership: Membership;
};

/** An older process of this server, whose calls move to this one from `drainedAt` on. */
type Expiring = { name: string; drainedAt: number };

/**
 * Makes the participants of a draining node join again on another one, some each second. Those of an older process move room by
 * room, because the two processes share no room.
 */
export function createDrainingNodes(runtime: Runtime, { fleet, placements, registry, membership }: Deps) {
  let older: readonly Expiring[] = [];
  /** The number of participants that move each second, by node. */
  const rates = new Map<string, number>();

  function move(): void {
    const draining = new Set(fleet.all().flatMap(({ name, draining: drains }) => (drains ? [name] : [])));
    const expiring = new Set(older.map(({ name }) => name));
    for (const name of rates.keys()) if (!draining.has(name) && !expiring.has(name)) rates.delete(name);
    for (const serverName of draining) {
      if (!placements.hasAlternative(serverName)) continue;
      // Clients of WHIP and WHEP cannot be told to join again, so they stay.
      const sessions = registry
        .sessions()
        .filter(({ site, link }) => site.serverName === serverName && link.state === "attached");
      const perSecond = rates.get(serverName) ?? Math.max(1, Math.ceil(sessions.length * MOVED_SHARE));
      rates.set(serverName, perSecond);
      // Participants who publish nothing move first, because nobody misses their tracks meanwhile.
      const next = sessions.sort((a, b) => Number(a.tracks.size > 0) - Number(b.tracks.size > 0)).slice(0, perSecond);
      for (const session of next) membership.dismiss(session, "restart");
    }
  }

  function moveRooms(): void {
    for (const { name, drainedAt } of older) {
      if (runtime.now() < drainedAt) continue;
      const sessions = registry.sessions().filter(({ site }) => site.serverName === name);
      // A client that is resuming at this moment cannot be told to join again.
      const resuming = new Set(sessions.flatMap(({ room, link }) => (link.state === "detached" ? [room] : [])));
      const rooms = [...new Set(sessions.map(({ room }) => room))].filter((room) => !resuming.has(room));
      const perSecond = rates.get(name) ?? Math.max(1, Math.ceil(rooms.length * MOVED_SHARE));
      rates.set(name, perSecond);
      const next = new Set(rooms.slice(0, perSecond));
      for (const session of sessions)
        if (next.has(session.room)) membership.dismiss(session, "restart", { quietly: true });
    }
  }

  return {
    /** Returns a function that stops the moving. */
    start(expiring: readonly Expiring[]): () => void {
      older = expiring;
      return every(runtime, MOVE_EVERY_MS, () => {
        move();
        moveRooms();
      });
    },
  };
}
