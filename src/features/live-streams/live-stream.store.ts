import { and, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import { changing, reading, run } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Environment, LiveStreamStatus, LiveStreamVisibility } from "../../protocol/enums.ts";
import { type LiveStreamRow, liveStreams as streams } from "./live-stream.table.ts";

export type StreamList = {
  projectId: string;
  environment: Environment;
  visibility?: LiveStreamVisibility;
  status?: LiveStreamStatus;
};
export type StreamChange = Partial<
  Omit<LiveStreamRow, "id" | "publicId" | "projectId" | "environment" | "roomId" | "conversationId" | "createdAt">
>;

export function liveStreamStore(db: Db) {
  const one = (where: SQL) => reading(() => db.select().from(streams).where(where).prepare());
  const byPublicId = one(eq(streams.publicId, sql.placeholder("publicId")));
  const byRoom = one(eq(streams.roomId, sql.placeholder("roomId")));
  // A filter that is not asked for is null, and then every row passes it: one statement for all combinations.
  const optional = (column: typeof streams.visibility | typeof streams.status, name: string) =>
    sql`(${sql.placeholder(name)} IS NULL OR ${column} = ${sql.placeholder(name)})`;
  const newest = reading(() =>
    db
      .select()
      .from(streams)
      .where(
        and(
          eq(streams.projectId, sql.placeholder("projectId")),
          eq(streams.environment, sql.placeholder("environment")),
          lt(streams.id, sql.placeholder("before")),
          optional(streams.visibility, "visibility"),
          optional(streams.status, "status"),
        ),
      )
      .orderBy(desc(streams.id))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );
  const raisePeak = changing(() =>
    db
      .update(streams)
      .set({ peakViewerCount: sql`max(${streams.peakViewerCount}, ${sql.placeholder("count")})` })
      .where(eq(streams.id, sql.placeholder("id")))
      .prepare(),
  );

  return {
    find: (publicId: string): LiveStreamRow | undefined => byPublicId.get({ publicId }),
    ofRoom: (roomId: string): LiveStreamRow | undefined => byRoom.get({ roomId }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: ({ visibility, status, ...owner }: StreamList, before: string, limit: number): LiveStreamRow[] =>
      newest.all({ ...owner, visibility: visibility ?? null, status: status ?? null, before, limit }),
    /** Projects that have any. */
    insert: (unit: Unit, row: LiveStreamRow) => void run(unit, db.insert(streams).values(row)),
    update: (unit: Unit, id: string, change: StreamChange) =>
      void run(unit, db.update(streams).set(change).where(eq(streams.id, id))),
    raisePeak: (unit: Unit, id: string, count: number) => void raisePeak.run(unit, { id, count }),
  };
}

export type LiveStreamStore = ReturnType<typeof liveStreamStore>;
