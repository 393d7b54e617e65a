import { changeEach, rowPages } from "../../kernel/db/pages.ts";
import { changing, reading } from "../../kernel/db/statements.ts";
import { ERASED, type PersonalColumns, type PersonalData, presentRow, type User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";

export const usagePersonalColumns: PersonalColumns = {
  userIds: { "usage_sessions.participant_identity": "" },
  content: [],
};

type UsedSession = { id: string; roomName: string; startedAt: number; endedAt: number | null };

/** The media sessions of a user. Erasing removes the user id; the minutes stay, because they are billed usage. */
export function usagePersonalData({ db, write }: Runtime): PersonalData {
  const { $client: client } = db;
  const sessions = reading<UsedSession, [string, string, string, number, number]>(
    client,
    `SELECT id, room_name AS roomName, started_at AS startedAt, ended_at AS endedAt FROM usage_sessions
       WHERE rowid > ?4 AND rowid <= ?5 AND +project_id = ?1 AND environment = ?2 AND participant_identity = ?3`,
  );
  const anonymize = changing<[string]>(
    client,
    `UPDATE usage_sessions SET participant_identity = '${ERASED}' WHERE id = ?`,
  );
  const sessionsOf = ({ projectId, environment, userId }: User) =>
    rowPages(db, "usage_sessions", (after, until) => sessions.all(projectId, environment, userId, after, until));

  return {
    kinds: {
      mediaSessions: async function* (user) {
        for await (const rows of sessionsOf(user)) yield rows.map(presentRow);
      },
    },
    erase: (user) => changeEach(write, sessionsOf(user), (unit, { id }) => void anonymize.run(unit, id)),
  };
}
