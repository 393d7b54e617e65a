import { accountVariables } from "../../kernel/config/account.variables.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { Environment } from "../../protocol/enums.ts";
import { dateOf, lastDates, minutesByDay, monthStart, startedMinutes } from "./minutes.ts";
import { createUsageMeter } from "./usage.meter.ts";
import { type UsageSessionRow, usageStore } from "./usage.store.ts";

/** Without an environment, the usage of both is included. */
type UsageQuery = { limit?: number; days?: number; environment?: Environment };

const DEFAULT_HISTORY = 50;
const DEFAULT_DAYS = 30;
const NO_USAGE = { minutes: 0, sessions: 0, recordedMinutes: 0 };

export type UsageService = ReturnType<typeof createUsage>;

type Day = typeof NO_USAGE;

/** Started participant-minutes of connected media, per account and calendar month, UTC. */
export function createUsage(runtime: Runtime) {
  const { config, db, now } = runtime;
  const store = usageStore(db);

  /** Minutes by project and day; running sessions count until now. */
  function dailyOf(
    projectIds: string[],
    [first, last]: [first: string, last: string],
    environment: Environment | undefined,
  ): Map<string, Map<string, Day>> {
    const counts = (of: Environment) => environment === undefined || environment === of;
    const byProject = new Map(projectIds.map((id) => [id, new Map<string, Day>()]));
    const add = (projectId: string, date: string, more: Partial<Day>) => {
      const days = byProject.get(projectId);
      if (!days || date < first || date > last) return;
      const day = days.get(date) ?? NO_USAGE;
      days.set(date, {
        minutes: day.minutes + (more.minutes ?? 0),
        sessions: day.sessions + (more.sessions ?? 0),
        recordedMinutes: day.recordedMinutes + (more.recordedMinutes ?? 0),
      });
    };
    for (const { projectId, date, ...day } of store.days(projectIds, first, last)) {
      if (counts(day.environment)) add(projectId, date, day);
    }
    const at = now();
    for (const { projectId, startedAt, ...session } of store.open(projectIds)) {
      if (!counts(session.environment)) continue;
      let sessions = 1;
      for (const [date, minutes] of minutesByDay(startedAt, at)) {
        add(projectId, date, { minutes, sessions });
        sessions = 0;
      }
    }
    return byProject;
  }

  function daily(projectIds: string[], days: number, environment?: Environment) {
    const dates = lastDates(now(), days);
    const byProject = dailyOf(projectIds, [dates[0] ?? "", dates.at(-1) ?? ""], environment);
    return dates.map((date) => {
      const total = { date, ...NO_USAGE };
      for (const perDay of byProject.values()) {
        const day = perDay.get(date) ?? NO_USAGE;
        total.minutes += day.minutes;
        total.sessions += day.sessions;
        total.recordedMinutes += day.recordedMinutes;
      }
      return total;
    });
  }

  /** Minutes of this month, by project. */
  function monthOf(projectIds: string[], environment?: Environment): Map<string, Omit<Day, "sessions">> {
    const byProject = dailyOf(projectIds, [dateOf(monthStart(now())), dateOf(now())], environment);
    const total = (days: Map<string, Day>, field: keyof Day) => sum([...days.values()].map((day) => day[field]));
    return new Map(
      [...byProject].map(([id, days]) => [
        id,
        { minutes: total(days, "minutes"), recordedMinutes: total(days, "recordedMinutes") },
      ]),
    );
  }

  const history = (projectIds: string[], limit: number, environment?: Environment) =>
    store.history(projectIds, environment, limit).map(presentSession);

  function presentSession(row: UsageSessionRow) {
    return {
      id: row.id,
      projectId: row.projectId,
      environment: row.environment,
      roomId: row.roomId,
      roomName: row.roomName,
      participantIdentity: row.participantIdentity,
      startedAt: iso(row.startedAt),
      endedAt: iso(row.endedAt),
      minutes: startedMinutes(row.startedAt, row.endedAt ?? now()),
    };
  }

  function accountUsage(userId: string) {
    const projects = store.projectsOf(userId);
    const ids = projects.map(({ id }) => id);
    const month = monthOf(ids);
    const usedMinutes = sum([...month.values()].map(({ minutes }) => minutes));
    const includedMinutes = config.USAGE_INCLUDED_MINUTES;
    return {
      projects,
      ids,
      month,
      totals: {
        includedMinutes,
        usedMinutes,
        remainingMinutes: Math.max(0, includedMinutes - usedMinutes),
        usedPercent: Math.round((usedMinutes / includedMinutes) * 1000) / 10,
        exceeded: usedMinutes >= includedMinutes,
        enforced: config.USAGE_ENFORCE_LIMIT,
        allowanceSet:
          config.USAGE_ENFORCE_LIMIT || includedMinutes !== accountVariables.USAGE_INCLUDED_MINUTES.fallback,
        periodStart: iso(monthStart(now())),
        liveSessions: store.open(ids).length,
      },
    };
  }

  function hasMinutesLeft(projectId: string): boolean {
    const account = store.accountOf(projectId);
    return account === null || !accountUsage(account).totals.exceeded;
  }

  return {
    meter: createUsageMeter(runtime, store),

    /** The user's allowance and how much of it is used. */
    account: (userId: string) => accountUsage(userId).totals,

    detail(userId: string, { limit = DEFAULT_HISTORY, days = DEFAULT_DAYS }: UsageQuery) {
      const { projects, ids, month, totals } = accountUsage(userId);
      return {
        ...totals,
        history: history(ids, limit),
        daily: daily(ids, days),
        projects: projects.map(({ id, name }) => ({ projectId: id, name, minutes: month.get(id)?.minutes ?? 0 })),
      };
    },

    project(projectId: string, { limit = DEFAULT_HISTORY, days = DEFAULT_DAYS, environment }: UsageQuery) {
      const { minutes = 0, recordedMinutes = 0 } = monthOf([projectId], environment).get(projectId) ?? {};
      return {
        projectId,
        usedMinutes: minutes,
        recordedMinutes,
        history: history([projectId], limit, environment),
        daily: daily([projectId], days, environment),
      };
    },

    minutesIn: (roomId: string, from: number, until: number): number => store.minutesIn(roomId, from, until, now()),

    /** Whether the project's account has minutes left; null when the limit is not enforced. */
    mayMint: config.USAGE_ENFORCE_LIMIT ? hasMinutesLeft : null,
  };
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
