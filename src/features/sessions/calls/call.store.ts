import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, filteredBy, inserter, reading, tenantColumns } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { type CallStatus, QUALITIES } from "../../../protocol/enums.ts";
import type { CallVerdict, Quality, VerdictCause } from "../../../protocol/room-records.ts";

export const calls = sqliteTable("calls", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  ...tenantColumns,
  roomId: text("room_id").notNull(),
  roomName: text("room_name").notNull(),
  startedAt: integer("started_at").notNull(),
  lastSeenAt: integer("last_seen_at").notNull(),
  endedAt: integer("ended_at"),
  participantCount: integer("participant_count").notNull(),
  peakParticipants: integer("peak_participants").notNull(),
  /** The worst verdict of the participants who have left. */
  quality: text("quality").$type<Quality>(),
  cause: text("cause").$type<VerdictCause>(),
});

export const callParticipants = sqliteTable("call_participants", {
  callId: text("call_id").notNull(),
  sessionId: text("session_id").notNull(),
  identity: text("identity").notNull(),
  /** The display name. */
  name: text("name"),
  connectionId: text("connection_id").notNull(),
  joinedAt: integer("joined_at").notNull(),
  leftAt: integer("left_at"),
  leaveReason: text("leave_reason"),
  /** When media was first received; null until then. */
  connectedAt: integer("connected_at"),
  quality: text("quality").$type<Quality>(),
  /** JSON; null until the participant has left. */
  verdict: text("verdict"),
});

export type CallRow = typeof calls.$inferSelect;
export type CallParticipantRow = typeof callParticipants.$inferSelect;

export type CallFilter = {
  status?: CallStatus;
  roomId?: string;
  connectionId?: string;
  quality?: Quality;
  cause?: VerdictCause;
  /** Calls that began at or after `from` and before `until`. */
  from?: number;
  until?: number;
};
/** The position at which a page ended, in a list sorted by start and id. */
export type CallPosition = { startedAt: number; id: string };

export type CallStore = ReturnType<typeof callStore>;

const CALL = columnsOf(calls);
const PARTICIPANT = columnsOf(callParticipants);

export function callStore({ $client: client }: Db) {
  const insertParticipant = inserter<CallParticipantRow>(client, callParticipants);
  const known = reading<{ one: number }, [string, string]>(
    client,
    "SELECT 1 AS one FROM call_participants WHERE call_id = ? AND identity = ? LIMIT 1",
  );
  const count = changing(
    client,
    `UPDATE calls SET participant_count = participant_count + ?, peak_participants = max(peak_participants, ?),
       last_seen_at = max(last_seen_at, ?) WHERE id = ?`,
  );
  const present = reading<CallParticipantRow, [string, string]>(
    client,
    `SELECT ${PARTICIPANT} FROM call_participants WHERE call_id = ? AND session_id = ? AND left_at IS NULL`,
  );
  const allPresent = reading<CallParticipantRow, [string]>(
    client,
    `SELECT ${PARTICIPANT} FROM call_participants WHERE call_id = ? AND left_at IS NULL ORDER BY joined_at, session_id`,
  );
  const leave = changing(
    client,
    "UPDATE call_participants SET left_at = ?, leave_reason = ?, verdict = ? WHERE call_id = ? AND session_id = ?",
  );
  const setConnected = changing(
    client,
    "UPDATE call_participants SET connected_at = ? WHERE call_id = ? AND session_id = ?",
  );
  const openIn = reading<{ one: number }, [string]>(
    client,
    "SELECT 1 AS one FROM calls WHERE room_id = ? AND ended_at IS NULL",
  );
  const setVerdict = changing(client, "UPDATE calls SET quality = ?, cause = ? WHERE id = ?");
  const setQuality = changing(client, "UPDATE call_participants SET quality = ? WHERE call_id = ? AND session_id = ?");
  const end = changing(client, "UPDATE calls SET ended_at = ?1, last_seen_at = ?1 WHERE id = ?2");
  const touch = changing(client, "UPDATE calls SET last_seen_at = max(last_seen_at, ?) WHERE id = ?");
  const byId = reading<CallRow, [string]>(client, `SELECT ${CALL} FROM calls WHERE id = ?`);
  const byPublicId = reading<CallRow, [string, string, string]>(
    client,
    `SELECT ${CALL} FROM calls WHERE project_id = ? AND environment = ? AND public_id = ?`,
  );
  const live = reading<CallRow, []>(client, `SELECT ${CALL} FROM calls WHERE ended_at IS NULL ORDER BY started_at`);
  const participants = reading<CallParticipantRow, [string, number]>(
    client,
    `SELECT ${PARTICIPANT} FROM call_participants WHERE call_id = ? ORDER BY joined_at, session_id LIMIT ?`,
  );
  const names = reading<{ identity: string; name: string }, [string, string, string, number, number]>(
    client,
    `SELECT DISTINCT p.identity, p.name FROM calls c JOIN call_participants p ON p.call_id = c.id
       WHERE c.project_id = ?1 AND c.environment = ?2 AND c.room_id = ?3 AND p.name IS NOT NULL
       AND c.started_at <= ?5 AND (c.ended_at IS NULL OR c.ended_at >= ?4) ORDER BY p.joined_at`,
  );
  const prune = changing(
    client,
    "DELETE FROM calls WHERE id IN (SELECT id FROM calls WHERE started_at < ? AND ended_at IS NOT NULL LIMIT ?)",
  );

  const listed = filteredBy((conditions) =>
    reading<CallRow, (string | number)[]>(
      client,
      `SELECT ${CALL} FROM calls WHERE project_id = ? AND environment = ? ${conditions}
         AND (started_at, id) < (?, ?) ORDER BY started_at DESC, id DESC LIMIT ?`,
    ),
  );

  return {
    /** The names for people to read, in the room's calls between two times. */
    names: ({ projectId, environment }: Tenant, roomId: string, from: number, until: number) =>
      names.all(projectId, environment, roomId, from, until),
    insert: inserter<CallRow>(client, calls),

    /** Counts the identity if it is new to the call. */
    addParticipant(unit: Unit, row: CallParticipantRow, peak: number): void {
      const added = known.get(row.callId, row.identity) ? 0 : 1;
      insertParticipant(unit, row);
      count.run(unit, added, peak, row.joinedAt, row.callId);
    },

    /** Null if the participant has left, or never joined. */
    presentParticipant: (callId: string, sessionId: string): CallParticipantRow | null =>
      present.get(callId, sessionId),
    presentParticipants: (callId: string): CallParticipantRow[] => allPresent.all(callId),

    /** The participant's verdict becomes the call's if it is the worst so far. */
    leave(
      unit: Unit,
      callId: string,
      sessionId: string,
      { at, reason, verdict }: { at: number; reason: string; verdict: CallVerdict | null },
    ): void {
      leave.run(unit, at, reason, verdict && JSON.stringify(verdict), callId, sessionId);
      const call = byId.get(callId);
      if (verdict && call && isWorse(verdict, call)) setVerdict.run(unit, verdict.quality, verdict.cause, callId);
    },

    setConnected: (unit: Unit, callId: string, sessionId: string, at: number) =>
      void setConnected.run(unit, at, callId, sessionId),
    /** Whether the room has a call that has not ended. */
    isOpenIn: (roomId: string): boolean => openIn.get(roomId) !== null,

    setQuality: (unit: Unit, callId: string, sessionId: string, quality: Quality) =>
      void setQuality.run(unit, quality, callId, sessionId),

    end: (unit: Unit, id: string, at: number) => void end.run(unit, at, id),
    touch: (unit: Unit, id: string, at: number) => void touch.run(unit, at, id),

    get: (id: string): CallRow | null => byId.get(id),
    find: ({ projectId, environment }: Tenant, publicId: string): CallRow | null =>
      byPublicId.get(projectId, environment, publicId),
    live: (): CallRow[] => live.all(),

    list({ projectId, environment }: Tenant, filter: CallFilter, after: CallPosition, limit: number): CallRow[] {
      const { statement, values } = listed({
        "ended_at IS NULL": filter.status === "LIVE",
        "ended_at IS NOT NULL": filter.status === "ENDED",
        "room_id = ?": filter.roomId,
        "id IN (SELECT call_id FROM call_participants WHERE connection_id = ?)": filter.connectionId,
        "quality = ?": filter.quality,
        "cause = ?": filter.cause,
        "started_at >= ?": filter.from,
        "started_at < ?": filter.until,
      });
      return statement.all(projectId, environment, ...values, after.startedAt, after.id, limit);
    },

    participants: (callId: string, limit: number): CallParticipantRow[] => participants.all(callId, limit),

    /** Removes at most `limit` calls that ended and began before `before`; returns true when more rows may match. */
    prune: (unit: Unit, before: number, limit: number): boolean => prune.run(unit, before, limit).changes === limit,
  };
}

/** Of two verdicts of one quality, the one with a cause counts as worse. */
function isWorse(verdict: CallVerdict, { quality, cause }: Pick<CallRow, "quality" | "cause">): boolean {
  if (quality === null) return true;
  if (verdict.quality === quality) return cause === "none" && verdict.cause !== "none";
  return QUALITIES.indexOf(verdict.quality) > QUALITIES.indexOf(quality);
}
