import type { Runtime } from "../kernel/runtime.ts";
import { ApiError } from "../protocol/errors.ts";
import { MediaError, type MediaNode } from "../protocol/media-node.ts";
import type { FleetService } from "./fleet.ts";
import type { MediaNodes } from "./media-nodes.ts";
import { allocate } from "./registration/allocation.ts";

/** The media node on which a room is placed. */
export type Placed = { serverName: string; region: string; node: MediaNode };

export type Placements = {
  /** Opens the room on the best node that accepts it; throws `SVC_NO_RTC_CAPACITY` when none does. */
  open(room: { id: string; region: string | null }): Promise<Placed>;
  /** Keeps the room on the node that reported it. */
  adopt(roomId: string, placed: Placed): Placed;
  /** Closes the room on its node. */
  release(roomId: string, placed: Placed): void;
  /** The node was lost or does not know the room any more, so there is nothing to close. */
  forget(roomId: string): void;
};

export function createPlacements({ config, log }: Runtime, fleet: FleetService, nodes: MediaNodes): Placements {
  const placed = new Map<string, string>();
  /** Opening a room again waits for its closing, because the two requests could overtake each other. */
  const closing = new Map<string, Promise<void>>();

  const placedOn = (serverName: string) => {
    let rooms = 0;
    for (const name of placed.values()) if (name === serverName) rooms += 1;
    return rooms;
  };

  return {
    async open({ id: roomId, region }) {
      await closing.get(roomId);
      for (const { name, region: itsRegion } of allocate(fleet.candidates(placedOn), region ?? config.SFU_REGION)) {
        const node = nodes.find(name);
        if (!node) continue;
        try {
          await node.openRoom({ roomId });
          placed.set(roomId, name);
          return { serverName: name, region: itsRegion, node };
        } catch (error) {
          if (!(error instanceof MediaError)) throw error;
          log.warn({ serverName: name, roomId, code: error.code }, "placement: media node failed to open the room");
        }
      }
      throw new ApiError("SVC_NO_RTC_CAPACITY");
    },

    adopt(roomId, found) {
      placed.set(roomId, found.serverName);
      return found;
    },

    release(roomId, { node, serverName }) {
      placed.delete(roomId);
      const closed = node
        .closeRoom({ roomId })
        .catch((err) => log.warn({ err, serverName, roomId }, "placement: closing the room failed"))
        .then(() => {
          if (closing.get(roomId) === closed) closing.delete(roomId);
        });
      closing.set(roomId, closed);
    },

    forget: (roomId) => void placed.delete(roomId),
  };
}
