import type { BusEvents } from "../../kernel/bus.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import { roomStore } from "./store/room.store.ts";
import type { RoomRow } from "./store/room.table.ts";
import { rtcTokenStore } from "./store/rtc-token.store.ts";

export type RoomService = ReturnType<typeof roomService>;

/** A room as someone of this project sees it. Without `environment` (a session, by id) either one is found. */
export type RoomRef = { projectId: string; environment?: Environment; roomId: string };

type CloseReason = BusEvents["roomClosed"]["reason"];

/** What is known of a room besides its row: who is in it now, and where. */
export type RoomPresence = { participantCount: number | null; serverName: string | null };

const NOBODY: RoomPresence = { participantCount: 0, serverName: null };

export function roomService({ db, bus, ids, now }: Runtime) {
  const store = roomStore(db);
  const tokens = rtcTokenStore(db);

  function find({ projectId, environment, roomId }: RoomRef): RoomRow {
    const row = store.find(roomId);
    const theirs = row?.projectId === projectId && (environment === undefined || row.environment === environment);
    if (!row || !theirs) throw new ApiError("SVC_ROOM_NOT_FOUND");
    return row;
  }

  return {
    list: store.list,
    find,

    /** By id alone: for credentials that name their room, like an RTC token. */
    byId: store.find,

    /** The one of this name that is active; a closed room has given its name back. */
    findByName: ({ projectId, environment }: { projectId: string; environment: Environment }, name: string) =>
      store.findActive(projectId, environment, name),

    /** By its id, or by the name of one that is active. */
    findByReference(owner: { projectId: string; environment: Environment }, reference: string): RoomRow {
      const named = () => store.findActive(owner.projectId, owner.environment, reference);
      return store.find(reference)
        ? find({ ...owner, roomId: reference })
        : (named() ?? find({ ...owner, roomId: reference }));
    },

    findActive(ref: RoomRef): RoomRow {
      const row = find(ref);
      if (row.status === "CLOSED") throw new ApiError("SVC_ROOM_CLOSED");
      return row;
    },

    create(
      unit: Unit,
      owner: { projectId: string; environment: Environment },
      input: { name: string; region?: string; record?: boolean },
    ): RoomRow {
      const { projectId, environment } = owner;
      if (store.findActive(projectId, environment, input.name)) {
        throw new ApiError("SVC_CONFLICT", "A room of this name is active.");
      }
      const at = now();
      const row: RoomRow = {
        id: ids.uuid(),
        projectId,
        environment,
        name: input.name,
        region: input.region ?? null,
        record: input.record ?? false,
        recording: false,
        status: "ACTIVE",
        createdAt: at,
        updatedAt: at,
        closedAt: null,
      };
      store.insert(unit, row);
      return row;
    },

    markRecording: store.markRecording,

    /** Ends the room and frees its name. Closing it again changes nothing. */
    close(unit: Unit, ref: RoomRef, reason: CloseReason = "closed"): RoomRow {
      const row = find(ref);
      if (row.status === "CLOSED") return row;
      const at = now();
      store.close(unit, row.id, at);
      tokens.forgetPermissions(unit, row.id);
      bus.publish(unit, "roomClosed", {
        roomId: row.id,
        projectId: row.projectId,
        environment: row.environment,
        reason,
      });
      return { ...row, status: "CLOSED", updatedAt: at, closedAt: at };
    },

    show: (row: RoomRow, presence: RoomPresence = NOBODY) => ({
      id: row.id,
      projectId: row.projectId,
      environment: row.environment,
      name: row.name,
      region: row.region,
      status: row.status,
      record: row.record,
      recording: row.recording,
      participantCount: presence.participantCount,
      serverName: presence.serverName,
      createdAt: iso(row.createdAt),
      updatedAt: iso(row.updatedAt),
      closedAt: iso(row.closedAt),
    }),
  };
}
