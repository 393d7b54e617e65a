import type { Static } from "@sinclair/typebox";
import type { Author } from "../../kernel/author.ts";
import type { BusEvents } from "../../kernel/bus.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Environment } from "../../protocol/enums.ts";
import { ApiError } from "../../protocol/errors.ts";
import { UUID_PATTERN } from "../../protocol/ids.ts";
import { auditTrail } from "../audit/audit-trail.ts";
import { type CreateRoom, UpdateRoom } from "./room.schema.ts";
import { roomStore } from "./room.store.ts";
import type { RoomRow } from "./room.table.ts";
import { rtcTokenStore } from "./rtc-token.store.ts";

export type RoomService = ReturnType<typeof roomService>;

/**
 * A room by its id or its name. Without `environment`, as in requests of project members, the id may belong to either
 * environment, and names are looked up in `namesIn`.
 */
export type RoomRef = { projectId: string; environment?: Environment; namesIn?: Environment; roomId: string };

type Changeable = keyof Static<typeof UpdateRoom>;
const CHANGEABLE = Object.keys(UpdateRoom.properties) as Changeable[];

/** Omitted fields stay unchanged. */
type RoomChange = Partial<Pick<RoomRow, Changeable>>;

const DEPARTURE_TIMEOUT_SECONDS = 20;

type CloseReason = BusEvents["roomClosed"]["reason"];

/** The media nodes of a room, its main one first; `participants` is null for one that does not respond. */
export type RoomPresence = { sites: { serverName: string; region: string; participants: number | null }[] };

const UUID = new RegExp(UUID_PATTERN, "i");
const EMPTY: RoomPresence = { sites: [] };

export function roomService({ db, bus, ids, now }: Runtime) {
  const store = roomStore(db);
  const tokens = rtcTokenStore(db);

  function find({ projectId, environment, namesIn = environment, roomId }: RoomRef): RoomRow {
    const row = store.find(UUID.test(roomId) ? roomId.toLowerCase() : roomId);
    if (row?.projectId === projectId && (environment ?? row.environment) === row.environment) return row;
    // The name of a closed room is free for other rooms.
    const named = namesIn && store.findActive(projectId, namesIn, roomId.normalize("NFC"));
    if (!named) throw new ApiError("SVC_ROOM_NOT_FOUND");
    return named;
  }

  const audit = auditTrail({ bus, now }, "room", ({ id }: RoomRow) => id);

  return {
    list: store.list,
    find,

    /** Finds the room of a credential, such as an RTC token, by its id. */
    byId: store.find,

    isEncrypted: (roomId: string): boolean => store.find(roomId)?.encrypted ?? false,

    /** Finds the active room of this name; several closed rooms may have had it. */
    findByName: ({ projectId, environment }: Tenant, name: string) => store.findActive(projectId, environment, name),

    /** The room id for a filter of a list, from an id or from the current or last name of a room. */
    idForFilter({ projectId, environment }: Tenant, reference: string | undefined): string | undefined {
      if (reference === undefined) return undefined;
      const known = store.find(reference) ?? store.findByName(projectId, environment, reference.normalize("NFC"));
      return find({ projectId, roomId: known?.id ?? reference }).id;
    },

    findActive(ref: RoomRef): RoomRow {
      const row = find(ref);
      if (row.status === "CLOSED") throw new ApiError("SVC_ROOM_CLOSED");
      return row;
    },

    create(unit: Unit, tenant: Tenant, input: CreateRoom): RoomRow {
      const { projectId, environment } = tenant;
      if (input.record && input.encrypted) {
        throw new ApiError(
          "SVC_VALIDATION_FAILED",
          "record: an encrypted room cannot be recorded; leave out one of both",
        );
      }
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
        encrypted: input.encrypted ?? false,
        lobby: input.lobby ?? false,
        locked: false,
        captions: input.captions ?? false,
        maxParticipants: input.maxParticipants ?? null,
        metadata: input.metadata ?? null,
        emptyTimeout: input.emptyTimeoutSeconds ?? null,
        departureTimeout: input.departureTimeoutSeconds ?? DEPARTURE_TIMEOUT_SECONDS,
        status: "ACTIVE",
        createdAt: at,
        updatedAt: at,
        closedAt: null,
      };
      store.insert(unit, row);
      bus.publish(unit, "roomCreated", row);
      return row;
    },

    markRecording: store.markRecording,
    ending: store.ending,

    /** The participants of the room are notified. */
    update(unit: Unit, ref: RoomRef, change: RoomChange, author: Author): RoomRow {
      const row = find(ref);
      if (row.status === "CLOSED") throw new ApiError("SVC_ROOM_CLOSED");
      const fields = CHANGEABLE.filter((field) => change[field] !== undefined);
      const changed = { ...Object.fromEntries(fields.map((field) => [field, change[field]])), updatedAt: now() };
      store.update(unit, row.id, changed);
      bus.publish(unit, "roomChanged", { roomId: row.id, fields });
      audit(unit, author, "room.updated", row, { fields });
      return { ...row, ...changed };
    },

    /** Ends the room and frees its name. Closing it again has no effect. */
    close(unit: Unit, ref: RoomRef, reason: CloseReason = "closed", author: Author | null = null): RoomRow {
      const row = find(ref);
      if (row.status === "CLOSED") return row;
      const at = now();
      store.close(unit, row.id, at);
      tokens.deletePermissions(unit, row.id);
      const { id: roomId, projectId, environment } = row;
      bus.publish(unit, "roomClosed", { roomId, projectId, environment, reason });
      if (author) audit(unit, author, "room.closed", row);
      return { ...row, status: "CLOSED", updatedAt: at, closedAt: at };
    },

    present: (row: RoomRow, { sites }: RoomPresence = EMPTY) => ({
      id: row.id,
      projectId: row.projectId,
      environment: row.environment,
      name: row.name,
      region: row.region,
      status: row.status,
      record: row.record,
      recording: row.recording,
      encrypted: row.encrypted,
      lobby: row.lobby,
      locked: row.locked,
      captions: row.captions,
      maxParticipants: row.maxParticipants,
      metadata: row.metadata,
      emptyTimeoutSeconds: row.emptyTimeout,
      departureTimeoutSeconds: row.departureTimeout,
      participantCount: sites.reduce<number | null>(
        (total, { participants }) => (total === null || participants === null ? null : total + participants),
        0,
      ),
      serverName: sites[0]?.serverName ?? null,
      sites,
      createdAt: iso(row.createdAt),
      updatedAt: iso(row.updatedAt),
      closedAt: iso(row.closedAt),
    }),
  };
}
