import { changeEach, pages, ROWS_PER_PAGE, rowPages } from "../../kernel/db/pages.ts";
import { changing, columnsOf, reading } from "../../kernel/db/statements.ts";
import { type PersonalColumns, type PersonalData, presentRow, type User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { type CallParticipantRow, type CallPosition, callParticipants } from "./calls/call.store.ts";
import { type ConnectionRow, connections } from "./connections/connection.store.ts";
import type { ConnectionRecorder } from "./connections/connection-recorder.ts";

export const sessionPersonalColumns: PersonalColumns = {
  userIds: {
    "rtc_connections.participant_identity": "",
    "call_participants.identity": "JOIN calls c ON c.id = call_id",
  },
  content: [
    "call_participants.name",
    "rtc_connections.ip_address",
    "rtc_connections.user_agent",
    "rtc_connections.sdk",
    "rtc_connection_events.data",
    "rtc_errors.message",
  ],
};

type Participation = CallParticipantRow & { callPublicId: string; roomId: string; roomName: string };

/** The connections of a user, with their events, errors and flight records, and the user's participations in calls. */
export function sessionPersonalData({ db, write, writer }: Runtime, recorder: ConnectionRecorder): PersonalData {
  const { $client: client } = db;
  const OF_TENANT = "project_id = ?1 AND environment = ?2";
  const connectionRows = reading<ConnectionRow, [string, string, string, number, number]>(
    client,
    `SELECT ${columnsOf(connections)} FROM rtc_connections
       WHERE rowid > ?4 AND rowid <= ?5 AND +${OF_TENANT} AND participant_identity = ?3`,
  );
  const removeErrors = changing<[string]>(client, "DELETE FROM rtc_errors WHERE connection = ?");
  const removeConnection = changing<[string]>(client, "DELETE FROM rtc_connections WHERE id = ?");
  const callAfter = reading<CallPosition, [string, string, number, string, number]>(
    client,
    `SELECT started_at AS startedAt, id FROM calls WHERE ${OF_TENANT} AND (started_at, id) > (?3, ?4)
       ORDER BY started_at, id LIMIT 1 OFFSET ?5`,
  );
  const participations = reading<Participation, [string, string, string, number, string, number, string]>(
    client,
    `SELECT ${columnsOf(callParticipants, "p")}, c.public_id AS callPublicId, c.room_id AS roomId, c.room_name AS roomName
       FROM calls c JOIN call_participants p ON p.call_id = c.id AND p.identity = ?3
       WHERE c.${OF_TENANT} AND (c.started_at, c.id) > (?4, ?5) AND (c.started_at, c.id) <= (?6, ?7)`,
  );
  const removeParticipation = changing<[string, string]>(
    client,
    "DELETE FROM call_participants WHERE call_id = ? AND session_id = ?",
  );
  const withAddress = reading<{ id: string }, [number, number]>(
    client,
    "SELECT id FROM rtc_connections WHERE started_at < ? AND ip_address IS NOT NULL LIMIT ?",
  );
  const removeAddress = changing<[string]>(client, "UPDATE rtc_connections SET ip_address = NULL WHERE id = ?");
  const removeEventAddresses = changing<[string]>(
    client,
    `UPDATE rtc_connection_events SET data = json_remove(data, '$.remoteAddress')
       WHERE connection = ? AND json_type(data, '$.remoteAddress') IS NOT NULL`,
  );

  const connectionsOf = ({ projectId, environment, userId }: User) =>
    rowPages(db, "rtc_connections", (after, until) => connectionRows.all(projectId, environment, userId, after, until));

  const participationsOf = ({ projectId, environment, userId }: User) =>
    pages<CallPosition, Participation>({ startedAt: -1, id: "" }, (after) => {
      const call = (skipped: number) => callAfter.get(projectId, environment, after.startedAt, after.id, skipped);
      if (!call(0)) return null;
      const until = call(ROWS_PER_PAGE - 1) ?? { startedAt: Number.MAX_SAFE_INTEGER, id: "" };
      const from = [after.startedAt, after.id] as const;
      return { until, rows: participations.all(projectId, environment, userId, ...from, until.startedAt, until.id) };
    });

  return {
    kinds: {
      connections: async function* (user) {
        for await (const rows of connectionsOf(user)) yield rows.map(presentRow);
      },
      calls: async function* (user) {
        for await (const rows of participationsOf(user)) {
          yield rows.map(({ callId: _, callPublicId, sessionId: __, verdict, ...participation }) => ({
            callId: callPublicId,
            ...presentRow(participation),
            verdict: verdict === null ? null : JSON.parse(verdict),
          }));
        }
      },
    },

    async erase(user) {
      await recorder.flush();
      recorder.forgetUser(user, user.userId);
      await writer.drain();
      await changeEach(write, connectionsOf(user), (unit, { id }) => {
        removeErrors.run(unit, id);
        removeConnection.run(unit, id);
      });
      await changeEach(
        write,
        participationsOf(user),
        (unit, { callId, sessionId }) => void removeParticipation.run(unit, callId, sessionId),
      );
    },

    removeAddresses(unit, before, limit) {
      const found = withAddress.all(before, limit);
      for (const { id } of found) {
        removeAddress.run(unit, id);
        removeEventAddresses.run(unit, id);
      }
      return found.length;
    },
  };
}
