import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, reading, rowsOf, tenantColumns } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { Environment } from "../../protocol/enums.ts";

export const usageSessions = sqliteTable("usage_sessions", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  roomId: text("room_id").notNull(),
  roomName: text("room_name").notNull(),
  participantIdentity: text("participant_identity").notNull(),
  /** When media was first connected. */
  startedAt: integer("started_at").notNull(),
  lastSeenAt: integer("last_seen_at").notNull(),
  endedAt: integer("ended_at"),
});

export const usageDays = sqliteTable("usage_days", {
  ...tenantColumns,
  date: text("date").notNull(),
  minutes: integer("minutes").notNull(),
  sessions: integer("sessions").notNull(),
  recordedMinutes: integer("recorded_minutes").notNull().default(0),
});

export type UsageSessionRow = typeof usageSessions.$inferSelect;
export type UsageStore = ReturnType<typeof usageStore>;

/** The usage of a project is accounted to its first owner. */
const FIRST_OWNER = `SELECT user_id FROM project_members
  WHERE project_id = p.id AND role = 'OWNER' ORDER BY added_at, user_id LIMIT 1`;

const IN_PROJECTS = "project_id IN (SELECT value FROM json_each(?))";

export function usageStore({ $client: client }: Db) {
  const accountOf = reading<{ userId: string | null }, [string]>(
    client,
    `SELECT (${FIRST_OWNER}) AS userId FROM projects p WHERE p.id = ?`,
  );
  const projectsOf = reading<{ id: string; name: string }, [string]>(
    client,
    `SELECT p.id, p.name FROM projects p JOIN project_members m ON m.project_id = p.id AND m.role = 'OWNER'
       WHERE m.user_id = ?1 AND (${FIRST_OWNER}) = ?1 ORDER BY p.id`,
  );
  const addDay = changing<[string, Environment, string, number, number, number]>(
    client,
    `INSERT INTO usage_days (project_id, environment, date, minutes, sessions, recorded_minutes) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (project_id, date, environment) DO UPDATE SET minutes = minutes + excluded.minutes,
         sessions = sessions + excluded.sessions, recorded_minutes = recorded_minutes + excluded.recorded_minutes`,
  );
  const select = rowsOf(client, usageSessions);
  const byId = select<[string]>("WHERE id = ?");
  const allOpen = select<[]>("WHERE ended_at IS NULL");
  const open = select<[string]>(`WHERE ${IN_PROJECTS} AND ended_at IS NULL`);
  const history = select<[string, number]>(`WHERE ${IN_PROJECTS} ORDER BY started_at DESC, id DESC LIMIT ?`);
  const historyIn = select<[string, Environment, number]>(
    `WHERE ${IN_PROJECTS} AND environment = ? ORDER BY started_at DESC, id DESC LIMIT ?`,
  );
  const days = rowsOf(client, usageDays)<[string, string, string]>(`WHERE ${IN_PROJECTS} AND date BETWEEN ? AND ?`);
  const touch = changing<[number, string]>(
    client,
    "UPDATE usage_sessions SET last_seen_at = ? WHERE id = ? AND ended_at IS NULL",
  );
  const end = changing<[number, string]>(
    client,
    "UPDATE usage_sessions SET ended_at = ?1, last_seen_at = ?1 WHERE id = ?2",
  );
  const minutesIn = reading<{ minutes: number }, [number, string, number, number]>(
    client,
    `SELECT coalesce(sum(max(1, (coalesce(ended_at, ?1) - started_at + 59999) / 60000)), 0) AS minutes
       FROM usage_sessions WHERE room_id = ?2 AND started_at >= ?3 AND started_at <= ?4`,
  );

  return {
    accountOf: (projectId: string) => accountOf.get(projectId)?.userId ?? null,
    projectsOf: (userId: string) => projectsOf.all(userId),

    insert: inserter<UsageSessionRow>(client, usageSessions, "ON CONFLICT DO NOTHING"),
    find: (id: string) => byId.get(id),
    touch: (unit: Unit, id: string, at: number) => void touch.run(unit, at, id),
    end: (unit: Unit, id: string, at: number) => void end.run(unit, at, id),
    addDay: (unit: Unit, { projectId, environment }: Tenant, date: string, minutes: number, sessions: number) =>
      void addDay.run(unit, projectId, environment, date, minutes, sessions, 0),
    addRecorded: (unit: Unit, { projectId, environment }: Tenant, date: string, minutes: number) =>
      void addDay.run(unit, projectId, environment, date, 0, 0, minutes),

    open: (projectIds: string[]) => open.all(JSON.stringify(projectIds)),
    allOpen: () => allOpen.all(),
    days: (projectIds: string[], first: string, last: string) => days.all(JSON.stringify(projectIds), first, last),
    /** Started minutes of a room's sessions that began in a span of time; running sessions count until `now`. */
    minutesIn: (roomId: string, from: number, until: number, now: number): number =>
      minutesIn.get(now, roomId, from, until)?.minutes ?? 0,
    /** Newest first. */
    history(projectIds: string[], environment: Environment | undefined, limit: number) {
      const ids = JSON.stringify(projectIds);
      return environment === undefined ? history.all(ids, limit) : historyIn.all(ids, environment, limit);
    },
  };
}
