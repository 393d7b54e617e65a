import type { BusEvents } from "../../kernel/bus.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import { roomStore } from "./room.store.ts";
import type { RoomRow } from "./room.table.ts";
import { rtcTokenStore } from "./rtc-token.store.ts";

export type RoomService = ReturnType<typeof roomService>;

/** Without `environment`, as members of the project refer to it, the room may be of either one. */
export type RoomRef = { projectId: string; environment?: Environment; roomId: string };

type CloseReason = BusEvents["roomClosed"]["reason"];

/** The live state of a room; `participantCount` is null when its media node does not respond. */
export type RoomPresence = { participantCount: number | null; serverName: string | null };

const EMPTY: RoomPresence = { participantCount: 0, serverName: null };

export function roomService({ db, bus, ids, now }: Runtime) {
  const store = roomStore(db);
  const tokens = rtcTokenStore(db);

  function find({ projectId, environment, roomId }: RoomRef): RoomRow {
    const row = store.find(roomId);
    if (row?.projectId !== projectId || (environment ?? row.environment) !== row.environment) {
      throw new ApiError("SVC_ROOM_NOT_FOUND");
    }
    return row;
  }

  return {
    list: store.list,
    find,

    /** For credentials that name their room, such as an RTC token. */
    byId: store.find,

    /** Finds the active room of this name; several closed rooms may have had it. */
    findByName: ({ projectId, environment }: Tenant, name: string) => store.findActive(projectId, environment, name),

    /** Finds a room by its id, or an active one by its name. */
    findByReference({ projectId, environment }: Tenant, reference: string): RoomRow {
      const named = store.find(reference) ? undefined : store.findActive(projectId, environment, reference);
      return named ?? find({ projectId, environment, roomId: reference });
    },

    findActive(ref: RoomRef): RoomRow {
      const row = find(ref);
      if (row.status === "CLOSED") throw new ApiError("SVC_ROOM_CLOSED");
      return row;
    },

    create(unit: Unit, tenant: Tenant, input: { name: string; region?: string; record?: boolean }): RoomRow {
      const { projectId, environment } = tenant;
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

    /** Ends the room and frees its name. Closing it again has no effect. */
    close(unit: Unit, ref: RoomRef, reason: CloseReason = "closed"): RoomRow {
      const row = find(ref);
      if (row.status === "CLOSED") return row;
      const at = now();
      store.close(unit, row.id, at);
      tokens.deletePermissions(unit, row.id);
      const { id: roomId, projectId, environment } = row;
      bus.publish(unit, "roomClosed", { roomId, projectId, environment, reason });
      return { ...row, status: "CLOSED", updatedAt: at, closedAt: at };
    },

    present: (row: RoomRow, presence: RoomPresence = EMPTY) => ({
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
