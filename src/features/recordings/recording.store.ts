import { and, asc, count, eq, gt, max, ne, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import { reading, run } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import type { RecordingStatus } from "../../protocol/enums.ts";
import {
  type RecordingEventRow,
  type RecordingFileRow,
  type RecordingRow,
  recordingEvents,
  recordingFiles,
  recordings,
} from "./recording.table.ts";

export type RecordingFilter = Tenant & { roomId?: string; status?: RecordingStatus };
/** Where a page ended: newest first, by start and then by id. */
export type RecordingPosition = { startedAt: number; id: string };

export type RecordingStore = ReturnType<typeof recordingStore>;

export function recordingStore(db: Db) {
  const { placeholder } = sql;
  const byId = reading(() =>
    db
      .select()
      .from(recordings)
      .where(eq(recordings.id, placeholder("id")))
      .prepare(),
  );
  const byPublicId = reading(() =>
    db
      .select()
      .from(recordings)
      .where(eq(recordings.publicId, placeholder("publicId")))
      .prepare(),
  );
  const files = reading(() =>
    db
      .select()
      .from(recordingFiles)
      // A composition is a file of no track.
      .where(and(eq(recordingFiles.recordingId, placeholder("recordingId")), ne(recordingFiles.trackId, "")))
      .orderBy(asc(recordingFiles.offsetMs), asc(recordingFiles.id))
      .prepare(),
  );
  const allFiles = reading(() =>
    db
      .select()
      .from(recordingFiles)
      .where(eq(recordingFiles.recordingId, placeholder("recordingId")))
      .prepare(),
  );
  const file = reading(() =>
    db
      .select()
      .from(recordingFiles)
      .where(eq(recordingFiles.id, placeholder("id")))
      .prepare(),
  );
  const fileCount = reading(() =>
    db
      .select({ files: count() })
      .from(recordingFiles)
      .where(eq(recordingFiles.recordingId, placeholder("recordingId")))
      .prepare(),
  );
  const events = reading(() =>
    db
      .select()
      .from(recordingEvents)
      .where(
        and(
          eq(recordingEvents.recordingId, placeholder("recordingId")),
          gt(recordingEvents.seq, placeholder("afterSeq")),
        ),
      )
      .orderBy(asc(recordingEvents.seq))
      .limit(placeholder("limit"))
      .prepare(),
  );
  const lastEvent = reading(() =>
    db
      .select({ seq: max(recordingEvents.seq) })
      .from(recordingEvents)
      .where(eq(recordingEvents.recordingId, placeholder("recordingId")))
      .prepare(),
  );

  return {
    get: (id: string): RecordingRow | undefined => byId.get({ id }),
    find(
      { projectId, environment }: Pick<Tenant, "projectId"> & Partial<Tenant>,
      publicId: string,
    ): RecordingRow | undefined {
      const row = byPublicId.get({ publicId });
      const theirs = row?.projectId === projectId && (environment === undefined || row.environment === environment);
      return theirs ? row : undefined;
    },
    findPublic: (publicId: string): RecordingRow | undefined => byPublicId.get({ publicId }),
    running: (): RecordingRow[] => db.select().from(recordings).where(eq(recordings.status, "RECORDING")).all(),
    composing: (): RecordingRow[] =>
      db.select().from(recordings).where(sql`json_extract(${recordings.composition}, '$.status') = 'RUNNING'`).all(),

    list(
      { projectId, environment, roomId, status }: RecordingFilter,
      after: RecordingPosition,
      limit: number,
    ): RecordingRow[] {
      return db
        .select()
        .from(recordings)
        .where(
          and(
            eq(recordings.projectId, projectId),
            eq(recordings.environment, environment),
            roomId === undefined ? undefined : eq(recordings.roomId, roomId),
            status === undefined ? undefined : eq(recordings.status, status),
            sql`(${recordings.startedAt}, ${recordings.id}) < (${after.startedAt}, ${after.id})`,
          ),
        )
        .orderBy(sql`${recordings.startedAt} DESC, ${recordings.id} DESC`)
        .limit(limit)
        .all();
    },

    /** Ended before; oldest first. */
    endedBefore: (before: number, limit: number): RecordingRow[] =>
      db
        .select()
        .from(recordings)
        .where(sql`${recordings.startedAt} < ${before} AND ${recordings.status} <> 'RECORDING'`)
        .orderBy(asc(recordings.startedAt))
        .limit(limit)
        .all(),

    files: (recordingId: string): RecordingFileRow[] => files.all({ recordingId }),
    /** With the composition. */
    allFiles: (recordingId: string): RecordingFileRow[] => allFiles.all({ recordingId }),
    fileCount: (recordingId: string): number => fileCount.get({ recordingId })?.files ?? 0,
    file: (id: string): RecordingFileRow | undefined => file.get({ id }),
    /** Of a timeline that may be long: those after that number. */
    events: (recordingId: string, afterSeq: number, limit: number): RecordingEventRow[] =>
      events.all({ recordingId, afterSeq, limit }),
    nextEventSeq: (recordingId: string): number => (lastEvent.get({ recordingId })?.seq ?? -1) + 1,

    insert: (unit: Unit, row: RecordingRow) => void run(unit, db.insert(recordings).values(row)),
    update: (unit: Unit, id: string, change: Partial<RecordingRow>) =>
      void run(unit, db.update(recordings).set(change).where(eq(recordings.id, id))),
    remove: (unit: Unit, id: string) => void run(unit, db.delete(recordings).where(eq(recordings.id, id))),
    saveFile: (unit: Unit, row: RecordingFileRow) =>
      void run(
        unit,
        db
          .insert(recordingFiles)
          .values(row)
          .onConflictDoUpdate({
            target: [recordingFiles.recordingId, recordingFiles.id],
            set: { offsetMs: row.offsetMs, durationMs: row.durationMs, bytes: row.bytes },
          }),
      ),
    removeFile: (unit: Unit, recordingId: string, id: string) =>
      void run(
        unit,
        db.delete(recordingFiles).where(and(eq(recordingFiles.recordingId, recordingId), eq(recordingFiles.id, id))),
      ),
    addEvents(unit: Unit, rows: readonly RecordingEventRow[]): void {
      for (const row of rows) run(unit, db.insert(recordingEvents).values(row).onConflictDoNothing());
    },
  };
}
