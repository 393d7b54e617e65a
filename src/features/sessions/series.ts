import { iso } from "../../kernel/clock.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { METRIC_RANGES, type MetricRange } from "../../protocol/observability.ts";
import type { Activity } from "./activity.ts";
import type { FigureStore, Stay } from "./store/figure.store.ts";

const STEP_SECONDS: Record<MetricRange, number> = { "15m": 60, "1h": 60, "24h": 900, "7d": 3600 };
/** Connections that began before the range may reach into it; longer ones than this are rare, and found while open. */
const LOOK_BACK_MS = 86_400_000;

/** The figures of the overview over time, in steps that fit the range. The last step is not over yet. */
export function seriesReader(store: FigureStore, now: () => number, activity: Pick<Activity, "read">) {
  return (tenant: Tenant, range: MetricRange) => {
    const rangeSeconds = METRIC_RANGES[range];
    const stepSeconds = STEP_SECONDS[range];
    const step = stepSeconds * 1000;
    const end = now();
    const first = (Math.floor((end - rangeSeconds * 1000) / step) + 1) * step;
    const points = Array.from({ length: Math.floor((end - first) / step) + 1 }, (_, index) => ({
      at: iso(first + index * step),
      rooms: 0,
      participants: 0,
      joins: 0,
      failedJoins: 0,
      messages: 0,
      deliveries: 0,
      failedDeliveries: 0,
    }));
    const pointAt = (at: number) => points[Math.floor((at - first) / step)];

    const known = store.stays(tenant, first - LOOK_BACK_MS);
    for (const { startedAt, connectedAt, state } of known) {
      const point = pointAt(startedAt);
      if (!point) continue;
      point.joins += 1;
      if (state === "FAILED" && connectedAt === null) point.failedJoins += 1;
    }
    for (const { from, until, people, rooms } of occupancy(known, first, end)) {
      for (let index = Math.floor((from - first) / step); first + index * step < until; index++) {
        const point = points[index];
        if (!point) break;
        point.participants = Math.max(point.participants, people);
        point.rooms = Math.max(point.rooms, rooms);
      }
    }
    for (const { at, messages, deliveries, failedDeliveries } of activity.read(tenant, first)) {
      const point = pointAt(at);
      if (!point) continue;
      point.messages += messages;
      point.deliveries += deliveries;
      point.failedDeliveries += failedDeliveries;
    }
    return { rangeSeconds, stepSeconds, points };
  };
}

/** How many were connected, and in how many rooms, from each coming or going to the next. */
function* occupancy(stays: Stay[], first: number, end: number) {
  const turns: { at: number; roomId: string | null; change: number }[] = [];
  for (const { roomId, connectedAt, disconnectedAt } of stays) {
    if (connectedAt === null || (disconnectedAt !== null && disconnectedAt <= first)) continue;
    turns.push({ at: Math.max(first, connectedAt), roomId, change: 1 });
    turns.push({ at: disconnectedAt ?? end + 1, roomId, change: -1 });
  }
  turns.sort((a, b) => a.at - b.at);
  const inRoom = new Map<string | null, number>();
  let people = 0;
  for (const [index, { at, roomId, change }] of turns.entries()) {
    people += change;
    const there = (inRoom.get(roomId) ?? 0) + change;
    if (there === 0) inRoom.delete(roomId);
    else inRoom.set(roomId, there);
    // Those who come and go at the same moment are one turn.
    const until = turns[index + 1]?.at ?? at;
    if (until > at) yield { from: at, until, people, rooms: inRoom.size };
  }
}
