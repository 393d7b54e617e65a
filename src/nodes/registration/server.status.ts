import { RTC_SERVER_STATUSES, type RtcServerStatus } from "../../protocol/enums.ts";
import type { ServerRow } from "./server.table.ts";

/** Silence outweighs a drain: nobody can say what a silent node does. */
export function statusOf(row: ServerRow, timeoutSeconds: number, at: number): RtcServerStatus {
  if (at - row.seenAt >= timeoutSeconds * 1000) return "UNHEALTHY";
  return row.draining ? "DRAINING" : "HEALTHY";
}

export type FleetMetrics = {
  servers: number;
  healthy: number;
  draining: number;
  unhealthy: number;
  capacity: number | null;
  activeRooms: number | null;
  activeParticipants: number | null;
  networkInBps: number | null;
  networkOutBps: number | null;
};

/** Totals of what is known; a silent node's last figures are history, and nothing known is null, never 0. */
export function fleetMetrics(rows: readonly ServerRow[], timeoutSeconds: number, at: number): FleetMetrics {
  const byStatus = new Map(RTC_SERVER_STATUSES.map((status) => [status, [] as ServerRow[]]));
  for (const row of rows) byStatus.get(statusOf(row, timeoutSeconds, at))?.push(row);
  const count = (status: RtcServerStatus) => byStatus.get(status)?.length ?? 0;
  const alive = [...(byStatus.get("HEALTHY") ?? []), ...(byStatus.get("DRAINING") ?? [])];
  const total = (of: (row: ServerRow) => number | null) => {
    const known = alive.map(of).filter((value) => value !== null);
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
  };
  return {
    servers: rows.length,
    healthy: count("HEALTHY"),
    draining: count("DRAINING"),
    unhealthy: count("UNHEALTHY"),
    capacity: total((row) => row.capacity),
    activeRooms: total((row) => row.activeRooms),
    activeParticipants: total((row) => row.activeParticipants),
    networkInBps: total((row) => row.networkInBps),
    networkOutBps: total((row) => row.networkOutBps),
  };
}
