import type { RoomService } from "../../features/rooms/room.service.ts";
import type { RoomRow } from "../../features/rooms/room.table.ts";
import type { Author } from "../../kernel/author.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { frameError } from "../../kernel/socket/frame-error.ts";
import type { RoomState } from "../../protocol/room-records.ts";
import type { ClientFrameOf } from "../../protocol/signaling.ts";
import type { Lobby } from "./lobby.ts";
import type { Membership } from "./membership.ts";
import type { LiveRoom, RtcSession, SessionRegistry } from "./rtc-session.ts";

type Change = Pick<ClientFrameOf<"room.update">, "spotlight" | "locked" | "lobby" | "captions">;

const STATE_FIELDS: ReadonlySet<string> = new Set(["locked", "lobby", "captions"]);

/** `row` is undefined when the room was deleted with its project. */
function stateOf({ stateVersion, spotlight }: LiveRoom, row: RoomRow | undefined): RoomState {
  const { locked = false, lobby = false, captions = false } = row ?? {};
  return { version: stateVersion, spotlight: [...spotlight], locked, lobby, captions };
}

export type RoomStates = ReturnType<typeof createRoomStates>;

/** What hosts decide about their room. The spotlight lasts as long as the call, everything else as long as the room. */
export function createRoomStates(
  { bus, now, write }: Runtime,
  deps: { rooms: RoomService; registry: SessionRegistry; membership: Membership; lobby: Lobby },
) {
  const { rooms, registry, membership, lobby } = deps;

  function changed(room: LiveRoom): void {
    room.stateVersion = Math.max(now(), room.stateVersion + 1);
    membership.broadcast(room, { type: "room.state", state: stateOf(room, rooms.byId(room.id)) });
  }

  bus.on("roomChanged", ({ roomId, fields }) => {
    if (!fields.some((field) => STATE_FIELDS.has(field))) return;
    if (rooms.byId(roomId)?.lobby === false) lobby.open(roomId);
    const room = registry.room(roomId);
    if (room) changed(room);
  });

  /** The row of a host's room, and the host as author; audit entries do not contain identities. */
  function asHost({ room, permissions }: RtcSession): { row: RoomRow; author: Author } {
    if (!permissions.host) {
      throw frameError("SVC_PERMISSION_DENIED", "The token does not permit this participant to act as host.");
    }
    const { id: roomId, projectId, environment } = room;
    return {
      row: rooms.findActive({ projectId, environment, roomId }),
      author: { actor: null, request: null, environment },
    };
  }

  return {
    of: (room: LiveRoom): RoomState => stateOf(room, rooms.byId(room.id)),
    asHost,

    async update(session: RtcSession, { spotlight, ...flags }: Change): Promise<void> {
      const { row, author } = asHost(session);
      const { id: roomId, projectId, environment } = row;
      if (Object.values(flags).some((flag) => flag !== undefined)) {
        await write((unit) => void rooms.update(unit, { projectId, environment, roomId }, flags, author));
      }
      if (!spotlight) return;
      session.room.spotlight = [...new Set(spotlight)];
      changed(session.room);
    },
  };
}
