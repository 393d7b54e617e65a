import { NEWEST, type PageRequest, page } from "../../kernel/http/serving/pages.ts";
import type { LiveRooms } from "./live-rooms.ts";
import type { RoomService } from "./room.service.ts";
import type { RoomList } from "./store/room.store.ts";
import type { RoomRow } from "./store/room.table.ts";

/** A page of rooms, each with who is in it now. */
export async function roomPage(
  context: Parameters<typeof page>[0],
  asked: PageRequest,
  { rooms, liveRooms }: { rooms: RoomService; liveRooms: LiveRooms },
  list: RoomList,
) {
  const rows = page<RoomRow, RoomRow>(context, asked, {
    name: "rooms",
    shape: ["string"],
    read: (after, limit) => rooms.list(list, String(after?.[0] ?? NEWEST), limit),
    position: (row) => [row.id],
    show: (row) => row,
  });
  const presence = await liveRooms.presence(rows.map((row) => row.id));
  return rows.map((row) => rooms.show(row, presence.get(row.id)));
}
