import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { CallParticipantRow } from "../../sessions/call.table.ts";
import { callParticipants } from "../../sessions/call.table.ts";
import { type ConnectionRow, connections } from "../../sessions/store/connection.table.ts";
import { ERASED, type Person } from "../person.ts";

/** A time that somebody was in a call. */
type CallVisit = CallParticipantRow & { callPublicId: string; roomId: string; roomName: string };
type StreamRole = { streamId: string; role: string; at: number };
type MediaSession = { id: string; roomName: string; startedAt: number; endedAt: number | null };

export type MediaTraces = ReturnType<typeof mediaTraces>;

/** Where rooms, calls, streams and the records of connections hold a person. */
export function mediaTraces({ $client: client }: Db) {
  const OF_TENANT = "project_id = ?1 AND environment = ?2";
  const tokens = reading(() =>
    client.prepare<{ id: string; roomId: string }, [string, string, string]>(
      `SELECT t.id, t.room_id AS roomId FROM rtc_tokens t JOIN rooms r ON r.id = t.room_id
       WHERE r.${OF_TENANT} AND t.participant_identity = ?3`,
    ),
  );
  const removeToken = changing(() => client.prepare("DELETE FROM rtc_tokens WHERE id = ?"));
  const forgetPermissions = changing(() =>
    client.prepare(
      `DELETE FROM participant_permissions WHERE participant_identity = ?3
       AND room_id IN (SELECT id FROM rooms WHERE ${OF_TENANT})`,
    ),
  );
  const connected = reading(() =>
    client.prepare<ConnectionRow, [string, string, string, number, number]>(
      `SELECT ${columnsOf(connections)} FROM rtc_connections
       WHERE rowid > ?4 AND rowid <= ?5 AND ${OF_TENANT} AND participant_identity = ?3`,
    ),
  );
  const removeErrors = changing(() => client.prepare("DELETE FROM rtc_errors WHERE connection = ?"));
  const removeConnection = changing(() => client.prepare("DELETE FROM rtc_connections WHERE id = ?"));
  const calls = reading(() =>
    client.prepare<{ startedAt: number; id: string }, [string, string, number, string, number]>(
      `SELECT started_at AS startedAt, id FROM calls WHERE ${OF_TENANT} AND (started_at, id) > (?3, ?4)
       ORDER BY started_at, id LIMIT 1 OFFSET ?5`,
    ),
  );
  const visits = reading(() =>
    client.prepare<CallVisit, [string, string, string, number, string, number, string]>(
      `SELECT ${columnsOf(callParticipants, "p")}, c.public_id AS callPublicId, c.room_id AS roomId, c.room_name AS roomName
       FROM calls c JOIN call_participants p ON p.call_id = c.id AND p.identity = ?3
       WHERE c.${OF_TENANT} AND (c.started_at, c.id) > (?4, ?5) AND (c.started_at, c.id) <= (?6, ?7)`,
    ),
  );
  const removeVisit = changing(() =>
    client.prepare("DELETE FROM call_participants WHERE call_id = ? AND session_id = ?"),
  );
  const usage = reading(() =>
    client.prepare<MediaSession, [string, string, string, number, number]>(
      `SELECT id, room_name AS roomName, started_at AS startedAt, ended_at AS endedAt FROM usage_sessions
       WHERE rowid > ?4 AND rowid <= ?5 AND ${OF_TENANT} AND participant_identity = ?3`,
    ),
  );
  const forgetUsage = changing(() =>
    client.prepare(`UPDATE usage_sessions SET participant_identity = '${ERASED}' WHERE id = ?`),
  );
  const roles = reading(() =>
    client.prepare<StreamRole, [string, string, string]>(
      `SELECT s.public_id AS streamId, h.role AS role, h.added_at AS at FROM live_streams s
         JOIN live_stream_hosts h ON h.stream_id = s.id AND h.identity = ?3 WHERE s.${OF_TENANT}
       UNION ALL SELECT s.public_id, 'VIEWER', v.joined_at FROM live_streams s
         JOIN live_stream_viewers v ON v.stream_id = s.id AND v.identity = ?3 WHERE s.${OF_TENANT}`,
    ),
  );
  const STREAMS = `(SELECT id FROM live_streams WHERE ${OF_TENANT})`;
  const forgetStreams = [
    `DELETE FROM live_stream_hosts WHERE identity = ?3 AND stream_id IN ${STREAMS}`,
    `DELETE FROM live_stream_viewers WHERE identity = ?3 AND stream_id IN ${STREAMS}`,
    `UPDATE live_streams SET host_identity = '${ERASED}' WHERE ${OF_TENANT} AND host_identity = ?3`,
  ].map((text) => changing(() => client.prepare(text)));

  const values = ({ projectId, environment, userId }: Person): [string, string, string] => [
    projectId,
    environment,
    userId,
  ];

  return {
    tokens: (person: Person) => tokens.all(...values(person)),
    removeToken: (unit: Unit, id: string) => void removeToken.run(unit, id),
    forgetPermissions: (unit: Unit, person: Person) => void forgetPermissions.run(unit, ...values(person)),
    connections: (person: Person, after: number, until: number): ConnectionRow[] =>
      connected.all(...values(person), after, until),
    removeConnection(unit: Unit, id: string): void {
      removeErrors.run(unit, id);
      removeConnection.run(unit, id);
    },

    /** The next calls of the project: up to which, and when the person was in one of them. Null at the end. */
    calls(person: Person, after: { startedAt: number; id: string }, limit: number) {
      const [projectId, environment, userId] = values(person);
      const bound = (skipped: number) => calls.get(projectId, environment, after.startedAt, after.id, skipped);
      const next = bound(0);
      if (!next) return null;
      const until = bound(limit - 1) ?? { startedAt: Number.MAX_SAFE_INTEGER, id: "" };
      const found = visits.all(projectId, environment, userId, after.startedAt, after.id, until.startedAt, until.id);
      return { until, visits: found };
    },
    removeVisit: (unit: Unit, { callId, sessionId }: CallParticipantRow) =>
      void removeVisit.run(unit, callId, sessionId),

    sessions: (person: Person, after: number, until: number): MediaSession[] =>
      usage.all(...values(person), after, until),
    /** The minutes stay: they were used. */
    forgetSession: (unit: Unit, id: string) => void forgetUsage.run(unit, id),

    streams: (person: Person): StreamRole[] => roles.all(...values(person)),
    forgetStreams(unit: Unit, person: Person): void {
      for (const statement of forgetStreams) statement.run(unit, ...values(person));
    },
  };
}
