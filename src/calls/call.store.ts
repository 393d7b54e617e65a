import type { Database } from "bun:sqlite";
import { columnsOf, inserter } from "../kernel/db/statements.ts";
import type { Unit } from "../kernel/db/writer.ts";
import type { Environment } from "../protocol/enums.ts";
import type { CallStatus, Quality } from "../protocol/room-records.ts";
import { type CallParticipantRow, type CallRow, callParticipants, calls } from "./call.table.ts";

type Tenant = { projectId: string; environment: Environment };
export type CallFilter = Tenant & { roomId?: string; status?: CallStatus };
/** Where a page ended: newest first, by start and then by id. */
export type CallPosition = { startedAt: number; id: string };

export type CallStore = ReturnType<typeof callStore>;

const CALL = columnsOf(calls);
const PARTICIPANT = columnsOf(callParticipants);
const LIVE = { LIVE: "AND ended_at IS NULL", ENDED: "AND ended_at IS NOT NULL" } as const;

export function callStore(client: Database) {
  const insertCall = inserter<CallRow>(client, calls);
  const insertParticipant = inserter<CallParticipantRow>(client, callParticipants);

  return {
    insert: (unit: Unit, row: CallRow) => void insertCall(unit, row),

    /** Counts the identity when it is new to the call. */
    addParticipant(unit: Unit, row: CallParticipantRow, peak: number): void {
      const known = client
        .query("SELECT 1 FROM call_participants WHERE call_id = ? AND identity = ? LIMIT 1")
        .get(row.callId, row.identity);
      insertParticipant(unit, row);
      client
        .query(
          `UPDATE calls SET participant_count = participant_count + ?, peak_participants = max(peak_participants, ?),
           last_seen_at = max(last_seen_at, ?) WHERE id = ?`,
        )
        .run(known ? 0 : 1, peak, row.joinedAt, row.callId);
    },

    /** Undefined when it has left already, or never came. */
    presentParticipant: (callId: string, sessionId: string): CallParticipantRow | undefined =>
      client
        .query<CallParticipantRow, [string, string]>(
          `SELECT ${PARTICIPANT} FROM call_participants WHERE call_id = ? AND session_id = ? AND left_at IS NULL`,
        )
        .get(callId, sessionId) ?? undefined,

    presentParticipants: (callId: string): CallParticipantRow[] =>
      client
        .query<CallParticipantRow, [string]>(
          `SELECT ${PARTICIPANT} FROM call_participants WHERE call_id = ? AND left_at IS NULL ORDER BY joined_at, session_id`,
        )
        .all(callId),

    leave(
      _unit: Unit,
      callId: string,
      sessionId: string,
      { at, reason, verdict }: { at: number; reason: string; verdict: string | null },
    ): void {
      client
        .query(
          "UPDATE call_participants SET left_at = ?, leave_reason = ?, verdict = ? WHERE call_id = ? AND session_id = ?",
        )
        .run(at, reason, verdict, callId, sessionId);
    },

    setQuality(_unit: Unit, callId: string, sessionId: string, quality: Quality): void {
      client
        .query("UPDATE call_participants SET quality = ? WHERE call_id = ? AND session_id = ?")
        .run(quality, callId, sessionId);
    },

    end: (_unit: Unit, id: string, at: number) =>
      void client.query("UPDATE calls SET ended_at = ?1, last_seen_at = ?1 WHERE id = ?2").run(at, id),

    touch: (_unit: Unit, id: string, at: number) =>
      void client.query("UPDATE calls SET last_seen_at = max(last_seen_at, ?) WHERE id = ?").run(at, id),

    get: (id: string): CallRow | undefined =>
      client.query<CallRow, [string]>(`SELECT ${CALL} FROM calls WHERE id = ?`).get(id) ?? undefined,

    find: ({ projectId, environment }: Tenant, publicId: string): CallRow | undefined =>
      client
        .query<CallRow, [string, string, string]>(
          `SELECT ${CALL} FROM calls WHERE project_id = ? AND environment = ? AND public_id = ?`,
        )
        .get(projectId, environment, publicId) ?? undefined,

    live: (): CallRow[] =>
      client.query<CallRow, []>(`SELECT ${CALL} FROM calls WHERE ended_at IS NULL ORDER BY started_at`).all(),

    list({ projectId, environment, roomId, status }: CallFilter, after: CallPosition, limit: number): CallRow[] {
      const ofRoom = roomId === undefined ? "" : "AND room_id = ?";
      return client
        .query<CallRow, (string | number)[]>(
          `SELECT ${CALL} FROM calls WHERE project_id = ? AND environment = ? ${ofRoom} ${status ? LIVE[status] : ""}
           AND (started_at, id) < (?, ?) ORDER BY started_at DESC, id DESC LIMIT ?`,
        )
        .all(projectId, environment, ...(roomId === undefined ? [] : [roomId]), after.startedAt, after.id, limit);
    },

    participants: (callId: string, limit: number): CallParticipantRow[] =>
      client
        .query<CallParticipantRow, [string, number]>(
          `SELECT ${PARTICIPANT} FROM call_participants WHERE call_id = ? ORDER BY joined_at, session_id LIMIT ?`,
        )
        .all(callId, limit),

    /** Removes at most `limit` that ended and began before; true when there may be more. */
    prune: (_unit: Unit, before: number, limit: number): boolean =>
      client
        .query(
          "DELETE FROM calls WHERE id IN (SELECT id FROM calls WHERE started_at < ? AND ended_at IS NOT NULL LIMIT ?)",
        )
        .run(before, limit).changes === limit,
  };
}
