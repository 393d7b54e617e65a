import type { Db } from "../../../kernel/db/open.ts";
import { changing, inserter, reading, rowsOf } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import {
  type FileLocation,
  type RecordingFileRow,
  type RecordingLeftoverRow,
  type RecordingUploadRow,
  recordingFiles,
  recordingLeftovers,
  recordingUploads,
} from "../recording.table.ts";

/** Where a page of files ended. */
type FilePosition = { recordingId: string; id: string };

export type StorageLocationStore = ReturnType<typeof storageLocationStore>;

/** The locations of recorded files, and the unfinished uploads and removals. */
export function storageLocationStore({ $client: client }: Db) {
  const files = rowsOf(client, recordingFiles);
  const uploads = rowsOf(client, recordingUploads);
  // A running recording may still write to its files.
  const OF_ENDED = `recording_id NOT IN (SELECT id FROM recordings WHERE status = 'RECORDING')
    AND (recording_id, id) > (?, ?) ORDER BY recording_id, id LIMIT ?`;
  const endedOnDisk = files<[string, string, number]>(`WHERE location = 'disk' AND ${OF_ENDED}`);
  const endedOnNode = files<[string, string, string, number]>(
    `WHERE location = 'node' AND server_name = ? AND ${OF_ENDED}`,
  );
  const nodesWithFiles = reading<{ serverName: string }, []>(
    client,
    `SELECT server_name AS serverName FROM recording_files WHERE location = 'node'
       UNION SELECT server_name FROM recording_leftovers`,
  );
  const hasFilesOn = reading<{ found: number }, [string]>(
    client,
    `SELECT EXISTS (SELECT 1 FROM recording_files WHERE location = 'node' AND server_name = ?1)
         OR EXISTS (SELECT 1 FROM recording_leftovers WHERE server_name = ?1) AS found`,
  );
  const move = changing<[string, number, string, string]>(
    client,
    "UPDATE recording_files SET location = ?, server_name = NULL, bytes = ? WHERE recording_id = ? AND id = ?",
  );
  const upload = uploads<[string]>("WHERE object_key = ?");
  const abandonedUploads = uploads<[]>("WHERE NOT EXISTS (SELECT 1 FROM recording_files f WHERE f.id = file_id)");
  const removeUpload = changing<[string]>(client, "DELETE FROM recording_uploads WHERE object_key = ?");
  const leftoversOn = rowsOf(client, recordingLeftovers)<[string]>("WHERE server_name = ?");
  const removeLeftover = changing<[string, string, string]>(
    client,
    "DELETE FROM recording_leftovers WHERE server_name = ? AND recording_id = ? AND file_name = ?",
  );

  return {
    endedOnDisk: (after: FilePosition, limit: number): RecordingFileRow[] =>
      endedOnDisk.all(after.recordingId, after.id, limit),
    /** Files on a media node whose recording has ended, in order. */
    endedOnNode: (serverName: string, after: FilePosition, limit: number): RecordingFileRow[] =>
      endedOnNode.all(serverName, after.recordingId, after.id, limit),
    /** Media nodes with files to download or to remove. */
    nodesWithFiles: (): string[] => nodesWithFiles.all().map(({ serverName }) => serverName),
    hasFilesOn: (serverName: string): boolean => hasFilesOn.get(serverName)?.found === 1,

    move: (unit: Unit, { recordingId, id }: RecordingFileRow, location: FileLocation, bytes: number) =>
      void move.run(unit, location, bytes, recordingId, id),

    upload: (objectKey: string): RecordingUploadRow | undefined => upload.get(objectKey),
    /** Uploads of files that were deleted. */
    abandonedUploads: (): RecordingUploadRow[] => abandonedUploads.all(),
    saveUpload: inserter<RecordingUploadRow>(
      client,
      recordingUploads,
      "ON CONFLICT (object_key) DO UPDATE SET upload_id = excluded.upload_id, etags = excluded.etags",
    ),
    removeUpload: (unit: Unit, objectKey: string) => void removeUpload.run(unit, objectKey),

    /** Files that a media node still has to remove. */
    leftoversOn: (serverName: string): RecordingLeftoverRow[] => leftoversOn.all(serverName),
    addLeftover: inserter<RecordingLeftoverRow>(client, recordingLeftovers, "ON CONFLICT DO NOTHING"),
    removeLeftover: (unit: Unit, { serverName, recordingId, fileName }: RecordingLeftoverRow) =>
      void removeLeftover.run(unit, serverName, recordingId, fileName),
  };
}

/** The key of a recorded file in the bucket, readable for an operator. */
export const objectKeyOf = ({ recordingId, fileName }: { recordingId: string; fileName: string }): string =>
  `recordings/${recordingId}/${fileName}`;
