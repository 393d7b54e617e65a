import { desc, eq, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import { changing, reading, run } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { rtcServers, type ServerRow } from "./server.table.ts";

export type Figures = Pick<
  ServerRow,
  "activeRooms" | "activeParticipants" | "cpuPercent" | "memoryPercent" | "networkInBps" | "networkOutBps"
>;

export function serverStore(db: Db) {
  const byName = reading(() =>
    db
      .select()
      .from(rtcServers)
      .where(eq(rtcServers.name, sql.placeholder("name")))
      .prepare(),
  );
  const all = reading(() => db.select().from(rtcServers).prepare());
  const listed = reading(() =>
    db
      .select()
      .from(rtcServers)
      .where(
        sql`(${rtcServers.registeredAt}, ${rtcServers.name}) < (${sql.placeholder("at")}, ${sql.placeholder("name")})`,
      )
      .orderBy(desc(rtcServers.registeredAt), desc(rtcServers.name))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );
  const beat = changing(() =>
    db
      .update(rtcServers)
      .set({
        activeRooms: sql`${sql.placeholder("activeRooms")}`,
        activeParticipants: sql`${sql.placeholder("activeParticipants")}`,
        cpuPercent: sql`${sql.placeholder("cpuPercent")}`,
        memoryPercent: sql`${sql.placeholder("memoryPercent")}`,
        networkInBps: sql`${sql.placeholder("networkInBps")}`,
        networkOutBps: sql`${sql.placeholder("networkOutBps")}`,
        lastHeartbeatAt: sql`${sql.placeholder("at")}`,
        seenAt: sql`${sql.placeholder("at")}`,
      })
      .where(eq(rtcServers.name, sql.placeholder("name")))
      .prepare(),
  );

  return {
    find: (name: string): ServerRow | undefined => byName.get({ name }),
    all: (): ServerRow[] => all.all(),
    /** Newest first, after the server registered at `at` under `name`. */
    list: (at: number, name: string, limit: number): ServerRow[] => listed.all({ at, name, limit }),
    /** A node that comes back reclaims its row, its drain included. */
    put(unit: Unit, row: ServerRow): void {
      const { name, draining, ...fields } = row;
      run(
        unit,
        db
          .insert(rtcServers)
          .values({ name, draining, ...fields })
          .onConflictDoUpdate({ target: rtcServers.name, set: fields }),
      );
    },
    beat: (unit: Unit, name: string, figures: Figures, at: number) => void beat.run(unit, { name, ...figures, at }),
    setDraining: (unit: Unit, name: string, draining: boolean) =>
      void run(unit, db.update(rtcServers).set({ draining }).where(eq(rtcServers.name, name))),
  };
}
