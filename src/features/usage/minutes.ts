import { DAY_MS } from "../../kernel/time/clock.ts";

const MINUTE_MS = 60_000;

/** The UTC date of a time, as `2026-03-01`. */
export function dateOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** Start of the calendar month, UTC. */
export function monthStart(at: number): number {
  const date = new Date(at);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1);
}

/** Every started minute counts: a session of one second counts as one minute. */
export function startedMinutes(startedAt: number, endedAt: number): number {
  return Math.max(1, Math.ceil((endedAt - startedAt) / MINUTE_MS));
}

/** A session's minutes by the UTC day in which each of them started; their sum is `startedMinutes`. */
export function minutesByDay(startedAt: number, endedAt: number): Map<string, number> {
  const days = new Map<string, number>();
  const total = startedMinutes(startedAt, endedAt);
  let counted = 0;
  for (let at = startedAt; counted < total; ) {
    const midnight = (Math.floor(at / DAY_MS) + 1) * DAY_MS;
    const untilMidnight = Math.ceil((midnight - at) / MINUTE_MS);
    const today = Math.min(total - counted, untilMidnight);
    days.set(dateOf(at), today);
    counted += today;
    at += today * MINUTE_MS;
  }
  return days;
}

/** The last `days` dates up to today, oldest first. */
export function lastDates(now: number, days: number): string[] {
  return Array.from({ length: days }, (_, index) => dateOf(now - (days - 1 - index) * DAY_MS));
}
