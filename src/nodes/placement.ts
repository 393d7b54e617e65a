import type { Runtime } from "../kernel/runtime.ts";
import { ApiError } from "../protocol/errors.ts";
import { MediaError, type MediaNode } from "../protocol/media-node.ts";
import type { FleetService } from "./fleet.ts";
import type { MediaNodes } from "./media-nodes.ts";
import { allocate } from "./registration/allocation.ts";

/** A media node on which a room is open. */
export type Placed = { serverName: string; region: string; node: MediaNode };

/** A room and the nodes that have participants of it. */
export type PlacedRoom = {
  readonly id: string;
  readonly region: string | null;
  /** By the names of the nodes; the first is the main site. */
  readonly sites: Map<string, Placed>;
};

/** The site that knows the speakers of the room. */
export const mainOf = ({ sites }: PlacedRoom): Placed | null => sites.values().next().value ?? null;

export type Placements = {
  /** The node for the next participant; opens the room there. Throws `SVC_NO_RTC_CAPACITY` when no node accepts it. */
  place(room: PlacedRoom): Promise<Placed>;
  isPlacing(room: PlacedRoom): boolean;
  /** Keeps the room on the node that reported it. */
  adopt(room: PlacedRoom, site: Placed): void;
  /** Closes the room on its node. */
  release(room: PlacedRoom, site: Placed): void;
  /** The node was lost or does not know the room any more, so there is nothing to close. */
  forget(room: PlacedRoom, serverName: string): void;
};

export function createPlacements({ config, log }: Runtime, fleet: FleetService, nodes: MediaNodes): Placements {
  const roomsOn = new Map<string, number>();
  const placing = new Map<PlacedRoom, Promise<Placed>>();
  /** Opening a room again waits for its closing, because the two requests could overtake each other. */
  const closing = new Map<string, Promise<void>>();

  function count(serverName: string, change: 1 | -1): void {
    const rooms = (roomsOn.get(serverName) ?? 0) + change;
    if (rooms > 0) roomsOn.set(serverName, rooms);
    else roomsOn.delete(serverName);
  }

  function add(room: PlacedRoom, site: Placed): Placed {
    if (!room.sites.has(site.serverName)) count(site.serverName, 1);
    room.sites.set(site.serverName, site);
    return site;
  }

  function forget(room: PlacedRoom, serverName: string): void {
    if (room.sites.delete(serverName)) count(serverName, -1);
  }

  async function open(room: PlacedRoom): Promise<Placed> {
    const { id: roomId } = room;
    const candidates = fleet.candidates((name) => roomsOn.get(name) ?? 0);
    for (const { name: serverName, region } of allocate(candidates, room.region ?? config.SFU_REGION)) {
      const node = nodes.find(serverName);
      if (!node) continue;
      await closing.get(`${serverName} ${roomId}`);
      try {
        await node.openRoom({ roomId });
        return add(room, { serverName, region, node });
      } catch (error) {
        if (!(error instanceof MediaError)) throw error;
        log.warn({ serverName, roomId, code: error.code }, "placement: media node failed to open the room");
      }
    }
    throw new ApiError("SVC_NO_RTC_CAPACITY");
  }

  return {
    async place(room) {
      const main = mainOf(room);
      if (main) return main;
      const opening = placing.get(room) ?? open(room).finally(() => placing.delete(room));
      placing.set(room, opening);
      return opening;
    },

    isPlacing: (room) => placing.has(room),

    adopt: (room, site) => void add(room, site),

    release(room, { node, serverName }) {
      forget(room, serverName);
      const key = `${serverName} ${room.id}`;
      const closed = node
        .closeRoom({ roomId: room.id })
        .catch((err) => log.warn({ err, serverName, roomId: room.id }, "placement: closing the room failed"))
        .then(() => {
          if (closing.get(key) === closed) closing.delete(key);
        });
      closing.set(key, closed);
    },

    forget,
  };
}
