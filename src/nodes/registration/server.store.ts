import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, rowsOf } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { rtcServers, type ServerRow } from "./server.table.ts";

type Figures = Pick<
  ServerRow,
  "activeRooms" | "activeParticipants" | "cpuPercent" | "memoryPercent" | "networkInBps" | "networkOutBps"
>;

export function serverStore({ $client: client }: Db) {
  const select = rowsOf(client, rtcServers);
  const byName = select<[string]>("WHERE name = ?");
  const all = select<[]>("");
  const page = select<[number, string, number]>(
    "WHERE (registered_at, name) < (?, ?) ORDER BY registered_at DESC, name DESC LIMIT ?",
  );
  const put = inserter<ServerRow>(
    client,
    rtcServers,
    `ON CONFLICT (name) DO UPDATE SET region = excluded.region, public_host = excluded.public_host,
       internal_url = excluded.internal_url, capacity = excluded.capacity, version = excluded.version,
       active_rooms = excluded.active_rooms, active_participants = excluded.active_participants,
       cpu_percent = excluded.cpu_percent, memory_percent = excluded.memory_percent,
       network_in_bps = excluded.network_in_bps, network_out_bps = excluded.network_out_bps,
       registered_at = excluded.registered_at, last_heartbeat_at = excluded.last_heartbeat_at,
       seen_at = excluded.seen_at`,
  );
  const beat = changing(
    client,
    `UPDATE rtc_servers SET active_rooms = ?2, active_participants = ?3, cpu_percent = ?4, memory_percent = ?5,
         network_in_bps = ?6, network_out_bps = ?7, last_heartbeat_at = ?8, seen_at = ?8 WHERE name = ?1`,
  );
  const setDraining = changing(client, "UPDATE rtc_servers SET draining = ?2 WHERE name = ?1");

  return {
    find: (name: string): ServerRow | undefined => byName.get(name),
    all: (): ServerRow[] => all.all(),
    /** Newest first, after the server registered at `at` under `name`. */
    list: (at: number, name: string, limit: number): ServerRow[] => page.all(at, name, limit),
    /** A node that registers again reuses its row, and a draining one keeps draining. */
    put: (unit: Unit, row: ServerRow) => void put(unit, row),
    beat(unit: Unit, name: string, figures: Figures, at: number): void {
      const { activeRooms, activeParticipants, cpuPercent, memoryPercent, networkInBps, networkOutBps } = figures;
      const load = [cpuPercent, memoryPercent, networkInBps, networkOutBps];
      beat.run(unit, name, activeRooms, activeParticipants, ...load, at);
    },
    setDraining: (unit: Unit, name: string, draining: boolean) => void setDraining.run(unit, name, draining),
  };
}
