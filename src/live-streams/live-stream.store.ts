import { and, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import type { Db } from "../kernel/db/open.ts";
import type { Unit } from "../kernel/db/writer.ts";
import type { Environment, LiveStreamStatus, LiveStreamVisibility } from "../protocol/enums.ts";
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
  const one = (where: SQL) => db.select().from(streams).where(where).prepare();
  const byPublicId = one(eq(streams.publicId, sql.placeholder("publicId")));
  const byRoom = one(eq(streams.roomId, sql.placeholder("roomId")));
  // A filter that is not asked for is null, and then every row passes it: one statement for all combinations.
  const optional = (column: typeof streams.visibility | typeof streams.status, name: string) =>
    sql`(${sql.placeholder(name)} IS NULL OR ${column} = ${sql.placeholder(name)})`;
  const newest = db
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
    .prepare();
  const raisePeak = db
    .update(streams)
    .set({ peakViewerCount: sql`max(${streams.peakViewerCount}, ${sql.placeholder("count")})` })
    .where(eq(streams.id, sql.placeholder("id")))
    .prepare();

  return {
    find: (publicId: string): LiveStreamRow | undefined => byPublicId.get({ publicId }),
    ofRoom: (roomId: string): LiveStreamRow | undefined => byRoom.get({ roomId }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: ({ visibility, status, ...owner }: StreamList, before: string, limit: number): LiveStreamRow[] =>
      newest.all({ ...owner, visibility: visibility ?? null, status: status ?? null, before, limit }),
    insert: (_unit: Unit, row: LiveStreamRow) => void db.insert(streams).values(row).run(),
    update: (_unit: Unit, id: string, change: StreamChange) =>
      void db.update(streams).set(change).where(eq(streams.id, id)).run(),
    raisePeak: (_unit: Unit, id: string, count: number) => void raisePeak.run({ id, count }),
  };
}

export type LiveStreamStore = ReturnType<typeof liveStreamStore>;
