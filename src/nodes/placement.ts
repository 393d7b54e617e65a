import type { Runtime } from "../kernel/runtime.ts";
import { ApiError } from "../protocol/errors.ts";
import { MediaError, type MediaNode } from "../protocol/media-node.ts";
import type { FleetService } from "./fleet.ts";
import type { MediaNodes } from "./nodes.ts";
import { allocate } from "./registration/allocation.ts";

/** Where a room's media runs. */
export type Placed = { serverName: string; region: string; node: MediaNode };

export type Placements = {
  /** Opens the room on the best node that answers; `SVC_NO_RTC_CAPACITY` when none does. */
  open(room: { id: string; region: string | null }): Promise<Placed>;
  /** The room goes on where it was found. */
  adopt(roomId: string, placed: Placed): Placed;
  /** Ends the room's media there. */
  release(roomId: string, placed: Placed): void;
  /** The node is lost or has forgotten the room: nothing is left to end there. */
  forget(roomId: string): void;
};

export function createPlacements({ config, log }: Runtime, fleet: FleetService, nodes: MediaNodes): Placements {
  const placed = new Map<string, string>();
  /** A room that is opened again waits until its closing has gone out, or the two could cross. */
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
          log.warn({ serverName: name, roomId, code: error.code }, "media node does not take the room");
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
        .catch((err) => log.warn({ err, serverName, roomId }, "media node did not close the room"))
        .then(() => {
          if (closing.get(roomId) === closed) closing.delete(roomId);
        });
      closing.set(roomId, closed);
    },

    forget: (roomId) => void placed.delete(roomId),
  };
}
