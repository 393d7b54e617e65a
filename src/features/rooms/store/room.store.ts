import { and, desc, eq, lt, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Environment } from "../../../protocol/enums.ts";
import { type RoomRow, rooms } from "./room.table.ts";

export type RoomStatus = RoomRow["status"];
export type RoomList = { projectId: string; environment: Environment; status: RoomStatus };

export function roomStore(db: Db) {
  const byId = reading(() =>
    db
      .select()
      .from(rooms)
      .where(eq(rooms.id, sql.placeholder("id")))
      .prepare(),
  );
  const activeByName = reading(() =>
    db
      .select()
      .from(rooms)
      .where(
        and(
          eq(rooms.projectId, sql.placeholder("projectId")),
          eq(rooms.environment, sql.placeholder("environment")),
          eq(rooms.name, sql.placeholder("name")),
          // Literal, so that the partial index serves it.
          sql`${rooms.status} = 'ACTIVE'`,
        ),
      )
      .prepare(),
  );
  const newest = reading(() =>
    db
      .select()
      .from(rooms)
      .where(
        and(
          eq(rooms.projectId, sql.placeholder("projectId")),
          eq(rooms.environment, sql.placeholder("environment")),
          eq(rooms.status, sql.placeholder("status")),
          lt(rooms.id, sql.placeholder("before")),
        ),
      )
      .orderBy(desc(rooms.id))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );
  const close = changing(() =>
    db
      .update(rooms)
      .set({
        status: "CLOSED",
        updatedAt: sql`${sql.placeholder("at")}`,
        closedAt: sql`${sql.placeholder("at")}`,
      })
      .where(eq(rooms.id, sql.placeholder("id")))
      .prepare(),
  );

  const markRecording = changing(() =>
    db
      .update(rooms)
      .set({ recording: sql`${sql.placeholder("recording")}` })
      .where(eq(rooms.id, sql.placeholder("id")))
      .prepare(),
  );

  return {
    markRecording: (unit: Unit, id: string, recording: boolean) =>
      void markRecording.run(unit, { id, recording: recording ? 1 : 0 }),
    find: (id: string): RoomRow | undefined => byId.get({ id }),
    findActive: (projectId: string, environment: Environment, name: string): RoomRow | undefined =>
      activeByName.get({ projectId, environment, name }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: (of: RoomList, before: string, limit: number): RoomRow[] => newest.all({ ...of, before, limit }),
    insert: (unit: Unit, row: RoomRow) => void run(unit, db.insert(rooms).values(row)),
    close: (unit: Unit, id: string, at: number) => void close.run(unit, { id, at }),
  };
}
