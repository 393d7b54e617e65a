import type { RoomService } from "../../../features/rooms/room.service.ts";
import type { RoomRow } from "../../../features/rooms/room.table.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { foreignName } from "../../../protocol/ids.ts";
import { type RoomOptions, roomOptionsOf } from "../room-options.ts";
import type { LivekitToken } from "../tokens.ts";
import { requireName, TwirpError } from "./twirp.ts";

type OpenedRoom = { row: RoomRow; isNew: boolean };
export type NamedRooms = ReturnType<typeof createNamedRooms>;

/** The rooms of a token's project, by the names in requests. */
export function createNamedRooms({ write }: Pick<Runtime, "write">, rooms: RoomService) {
  return {
    require({ key }: Pick<LivekitToken, "key">, name: string): RoomRow {
      const row = rooms.findByName(key, foreignName(name) ?? "");
      if (!row) throw new TwirpError("not_found", "requested room does not exist");
      return row;
    },

    /** The room of this name, which is created with these options if it does not exist. */
    open({ key }: Pick<LivekitToken, "key">, name: string, options: RoomOptions = {}): Promise<OpenedRoom> {
      const roomName = requireName(name);
      return write((unit) => {
        const known = rooms.findByName(key, roomName);
        if (known) return { row: known, isNew: false };
        return { row: rooms.create(unit, key, { name: roomName, ...roomOptionsOf(options) }), isNew: true };
      });
    },
  };
}
