import type { Environment } from "../../../protocol/enums.ts";
import type { LiveRoom, RtcSession } from "./rtc-session.ts";

type RoomFields = {
  id: string;
  name: string;
  projectId: string;
  environment: Environment;
  region: string | null;
  record: boolean;
  recording: boolean;
};

/** Who is where: rooms with somebody in them, and their sessions by id and by identity. Holds no rule. */
export function createRegistry() {
  const rooms = new Map<string, LiveRoom>();
  const sessions = new Map<string, RtcSession>();

  return {
    room: (roomId: string): LiveRoom | undefined => rooms.get(roomId),
    rooms: (): LiveRoom[] => [...rooms.values()],
    session: (sessionId: string): RtcSession | undefined => sessions.get(sessionId),
    sessions: (): RtcSession[] => [...sessions.values()],
    of: (roomId: string, identity: string): RtcSession | undefined => rooms.get(roomId)?.sessions.get(identity),

    roomFor(fields: RoomFields): LiveRoom {
      const known = rooms.get(fields.id);
      if (known) return known;
      const { id, name, projectId, environment, region, record, recording } = fields;
      const room: LiveRoom = {
        ...{ id, name, projectId, environment, region, record, recording },
        sessions: new Map(),
        pending: 0,
        placing: null,
        placed: null,
      };
      rooms.set(id, room);
      return room;
    },

    add(session: RtcSession): void {
      sessions.set(session.id, session);
      session.room.sessions.set(session.identity, session);
    },

    remove(session: RtcSession): void {
      sessions.delete(session.id);
      const { sessions: present } = session.room;
      if (present.get(session.identity) === session) present.delete(session.identity);
    },

    /** True when that was the last of it. */
    removeRoomIfEmpty(room: LiveRoom): boolean {
      if (room.sessions.size > 0 || room.pending > 0 || rooms.get(room.id) !== room) return false;
      return rooms.delete(room.id);
    },
  };
}

export type Registry = ReturnType<typeof createRegistry>;
