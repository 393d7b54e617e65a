import { and, asc, eq, notExists, type SQL, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import {
  type FileLocation,
  type RecordingFileRow,
  type RecordingLeftoverRow,
  type RecordingUploadRow,
  recordingFiles,
  recordingLeftovers,
  recordings,
  recordingUploads,
} from "../recording.table.ts";

/** Where a page of files ended. */
type FilePosition = { recordingId: string; id: string };

export type PlacesStore = ReturnType<typeof placesStore>;

/** Where the files of recordings lie, and what is on its way. */
export function placesStore(db: Db) {
  const columns = { file: recordingFiles };
  const filesOn = reading(() =>
    db
      .select({ id: recordingFiles.id })
      .from(recordingFiles)
      .where(and(eq(recordingFiles.location, "node"), eq(recordingFiles.serverName, sql.placeholder("serverName"))))
      .limit(1)
      .prepare(),
  );
  const hasLeftovers = reading(() =>
    db
      .select({ fileName: recordingLeftovers.fileName })
      .from(recordingLeftovers)
      .where(eq(recordingLeftovers.serverName, sql.placeholder("serverName")))
      .limit(1)
      .prepare(),
  );
  const isLeftover = ({ serverName, recordingId, fileName }: RecordingLeftoverRow) =>
    and(
      eq(recordingLeftovers.serverName, serverName),
      eq(recordingLeftovers.recordingId, recordingId),
      eq(recordingLeftovers.fileName, fileName),
    );

  const settled = (where: SQL | undefined, after: FilePosition, limit: number): RecordingFileRow[] =>
    db
      .select(columns)
      .from(recordingFiles)
      .innerJoin(recordings, eq(recordings.id, recordingFiles.recordingId))
      .where(
        and(
          where,
          sql`${recordings.status} <> 'RECORDING'`,
          sql`(${recordingFiles.recordingId}, ${recordingFiles.id}) > (${after.recordingId}, ${after.id})`,
        ),
      )
      .orderBy(asc(recordingFiles.recordingId), asc(recordingFiles.id))
      .limit(limit)
      .all()
      .map(({ file }) => file);

  return {
    /** Files on the disk whose recording has ended, after that one, in order. */
    settledHere: (after: FilePosition, limit: number): RecordingFileRow[] =>
      settled(eq(recordingFiles.location, "disk"), after, limit),
    /** The same of a media node. */
    settledOn: (serverName: string, after: FilePosition, limit: number): RecordingFileRow[] =>
      settled(and(eq(recordingFiles.location, "node"), eq(recordingFiles.serverName, serverName)), after, limit),
    /** Wanted or not. */
    nodesWithFiles: (): string[] =>
      db
        .select({ serverName: sql<string>`${recordingFiles.serverName}` })
        .from(recordingFiles)
        .where(eq(recordingFiles.location, "node"))
        .union(db.select({ serverName: sql<string>`${recordingLeftovers.serverName}` }).from(recordingLeftovers))
        .all()
        .map(({ serverName }) => serverName),

    move(unit: Unit, { recordingId, id }: RecordingFileRow, location: FileLocation, bytes: number): void {
      run(
        unit,
        db
          .update(recordingFiles)
          .set({ location, serverName: null, bytes })
          .where(and(eq(recordingFiles.recordingId, recordingId), eq(recordingFiles.id, id))),
      );
    },

    upload: (objectKey: string): RecordingUploadRow | undefined =>
      db.select().from(recordingUploads).where(eq(recordingUploads.objectKey, objectKey)).get(),
    /** Of files that are there no more. */
    abandonedUploads: (): RecordingUploadRow[] =>
      db
        .select()
        .from(recordingUploads)
        .where(notExists(db.select().from(recordingFiles).where(eq(recordingFiles.id, recordingUploads.fileId))))
        .all(),
    saveUpload(unit: Unit, row: RecordingUploadRow): void {
      const { uploadId, etags } = row;
      run(
        unit,
        db
          .insert(recordingUploads)
          .values(row)
          .onConflictDoUpdate({ target: recordingUploads.objectKey, set: { uploadId, etags } }),
      );
    },
    removeUpload: (unit: Unit, objectKey: string) =>
      void run(unit, db.delete(recordingUploads).where(eq(recordingUploads.objectKey, objectKey))),

    /** Wanted or not. */
    hasFilesOn: (serverName: string): boolean =>
      filesOn.get({ serverName }) !== undefined || hasLeftovers.get({ serverName }) !== undefined,
    leftoversOn: (serverName: string): RecordingLeftoverRow[] =>
      db.select().from(recordingLeftovers).where(eq(recordingLeftovers.serverName, serverName)).all(),
    addLeftover: (unit: Unit, row: RecordingLeftoverRow) =>
      void run(unit, db.insert(recordingLeftovers).values(row).onConflictDoNothing()),
    removeLeftover: (unit: Unit, row: RecordingLeftoverRow) =>
      void run(unit, db.delete(recordingLeftovers).where(isLeftover(row))),
  };
}
