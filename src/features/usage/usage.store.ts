import { and, between, eq, inArray, isNull, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import { changing, reading, run } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { type UsageDayRow, type UsageSessionRow, usageDays, usageSessions } from "./usage.table.ts";

export type UsageStore = ReturnType<typeof usageStore>;

/** The account of a project is its first owner. */
const FIRST_OWNER = `SELECT user_id FROM project_members
  WHERE project_id = p.id AND role = 'OWNER' ORDER BY added_at, user_id LIMIT 1`;

export function usageStore(db: Db) {
  const { placeholder } = sql;
  const { $client: client } = db;
  const accountOf = reading(() =>
    client.query<{ user_id: string }, [string]>(`SELECT (${FIRST_OWNER}) AS user_id FROM projects p WHERE p.id = ?`),
  );
  const projectsOf = reading(() =>
    client.query<{ id: string; name: string }, [string]>(
      `SELECT p.id, p.name FROM projects p JOIN project_members m ON m.project_id = p.id AND m.role = 'OWNER'
     WHERE m.user_id = ?1 AND (${FIRST_OWNER}) = ?1 ORDER BY p.id`,
    ),
  );
  const addDay = changing(() =>
    client.query<null, [string, string, number, number]>(
      `INSERT INTO usage_days (project_id, date, minutes, sessions) VALUES (?, ?, ?, ?) ON CONFLICT (project_id, date)
     DO UPDATE SET minutes = minutes + excluded.minutes, sessions = sessions + excluded.sessions`,
    ),
  );
  const addRecorded = changing(() =>
    client.query<null, [string, string, number]>(
      `INSERT INTO usage_days (project_id, date, minutes, sessions, recorded_minutes) VALUES (?, ?, 0, 0, ?)
     ON CONFLICT (project_id, date) DO UPDATE SET recorded_minutes = recorded_minutes + excluded.recorded_minutes`,
    ),
  );
  const byId = reading(() =>
    db
      .select()
      .from(usageSessions)
      .where(eq(usageSessions.id, placeholder("id")))
      .prepare(),
  );
  const touch = changing(() =>
    db
      .update(usageSessions)
      .set({ lastSeenAt: sql`${placeholder("at")}` })
      .where(and(eq(usageSessions.id, placeholder("id")), isNull(usageSessions.endedAt)))
      .prepare(),
  );
  const end = changing(() =>
    db
      .update(usageSessions)
      .set({ endedAt: sql`${placeholder("at")}`, lastSeenAt: sql`${placeholder("at")}` })
      .where(eq(usageSessions.id, placeholder("id")))
      .prepare(),
  );
  const minutesIn = reading(() =>
    client.prepare<{ minutes: number }, [number, string, number, number]>(
      `SELECT coalesce(sum(max(1, (coalesce(ended_at, ?1) - started_at + 59999) / 60000)), 0) AS minutes
       FROM usage_sessions WHERE room_id = ?2 AND started_at >= ?3 AND started_at <= ?4`,
    ),
  );

  return {
    accountOf: (projectId: string): string | null => accountOf.get(projectId)?.user_id ?? null,
    projectsOf: (userId: string) => projectsOf.all(userId),

    insert: (unit: Unit, row: UsageSessionRow) =>
      void run(unit, db.insert(usageSessions).values(row).onConflictDoNothing()),
    find: (id: string): UsageSessionRow | undefined => byId.get({ id }),
    touch: (unit: Unit, id: string, at: number) => void touch.run(unit, { id, at }),
    end: (unit: Unit, id: string, at: number) => void end.run(unit, { id, at }),
    addDay: (unit: Unit, projectId: string, date: string, minutes: number, sessions: number) =>
      void addDay.run(unit, projectId, date, minutes, sessions),
    addRecorded: (unit: Unit, projectId: string, date: string, minutes: number) =>
      void addRecorded.run(unit, projectId, date, minutes),

    open: (projectIds: string[]): UsageSessionRow[] =>
      db
        .select()
        .from(usageSessions)
        .where(and(inArray(usageSessions.projectId, projectIds), isNull(usageSessions.endedAt)))
        .all(),
    allOpen: (): UsageSessionRow[] => db.select().from(usageSessions).where(isNull(usageSessions.endedAt)).all(),

    days: (projectIds: string[], first: string, last: string): UsageDayRow[] =>
      db
        .select()
        .from(usageDays)
        .where(and(inArray(usageDays.projectId, projectIds), between(usageDays.date, first, last)))
        .all(),

    /** Started minutes of the sessions of a room that began in a span of time, running ones as of `now`. */
    minutesIn: (roomId: string, from: number, until: number, now: number): number =>
      minutesIn.get(now, roomId, from, until)?.minutes ?? 0,

    /** Newest first. */
    history: (projectIds: string[], limit: number): UsageSessionRow[] =>
      db
        .select()
        .from(usageSessions)
        .where(inArray(usageSessions.projectId, projectIds))
        .orderBy(sql`${usageSessions.startedAt} DESC, ${usageSessions.id} DESC`)
        .limit(limit)
        .all(),
  };
}
