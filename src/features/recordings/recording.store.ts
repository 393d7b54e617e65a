import type { Db } from "../../kernel/db/open.ts";
import { changing, filteredBy, inserter, reading, rowsOf, updater } from "../../kernel/db/statements.ts";
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

type RecordingFilter = { roomId?: string; status?: RecordingStatus };
/** The position at which a page ended, in a list sorted by start and id, newest first. */
type RecordingPosition = { startedAt: number; id: string };

export type RecordingStore = ReturnType<typeof recordingStore>;

export function recordingStore({ $client: client }: Db) {
  const rows = rowsOf(client, recordings);
  const byId = rows<[string]>("WHERE id = ?");
  const byPublicId = rows<[string]>("WHERE public_id = ?");
  const running = rows<[]>("WHERE status = 'RECORDING'");
  const ofCall = rows<[string, string]>("WHERE room_id = ? AND call_id = ? ORDER BY started_at, id");
  const composing = rows<[]>("WHERE json_extract(composition, '$.status') = 'RUNNING'");
  const listed = filteredBy((conditions) =>
    rows<(string | number)[]>(
      `WHERE project_id = ? AND environment = ? ${conditions} AND (started_at, id) < (?, ?)
       ORDER BY started_at DESC, id DESC LIMIT ?`,
    ),
  );
  const endedBefore = rows<[number, number]>(
    "WHERE started_at < ? AND status <> 'RECORDING' ORDER BY started_at LIMIT ?",
  );
  const fileRows = rowsOf(client, recordingFiles);
  // A composition is a file without a track.
  const files = fileRows<[string]>("WHERE recording_id = ? AND track_id <> '' ORDER BY offset_ms, id");
  const allFiles = fileRows<[string]>("WHERE recording_id = ?");
  const file = fileRows<[string]>("WHERE id = ?");
  const fileCount = reading<{ files: number }, [string]>(
    client,
    "SELECT count(*) AS files FROM recording_files WHERE recording_id = ?",
  );
  const events = rowsOf(
    client,
    recordingEvents,
  )<[string, number, number]>("WHERE recording_id = ? AND seq > ? ORDER BY seq LIMIT ?");
  const lastEvent = reading<{ seq: number | null }, [string]>(
    client,
    "SELECT max(seq) AS seq FROM recording_events WHERE recording_id = ?",
  );
  const countEncryptedTrack = changing<[string]>(
    client,
    "UPDATE recordings SET encrypted_tracks = encrypted_tracks + 1 WHERE id = ?",
  );
  const remove = changing<[string]>(client, "DELETE FROM recordings WHERE id = ?");
  const removeFile = changing<[string, string]>(
    client,
    "DELETE FROM recording_files WHERE recording_id = ? AND id = ?",
  );
  const addEvent = inserter<RecordingEventRow>(client, recordingEvents, "ON CONFLICT DO NOTHING");

  return {
    get: (id: string): RecordingRow | undefined => byId.get(id),
    ofCall: (roomId: string, callId: string): RecordingRow[] => ofCall.all(roomId, callId),
    /** Without an environment, recordings of both are found. */
    find({ projectId, environment }: Pick<Tenant, "projectId"> & Partial<Tenant>, publicId: string) {
      const row = byPublicId.get(publicId);
      const matches = row?.projectId === projectId && (environment === undefined || row.environment === environment);
      return matches ? row : undefined;
    },
    findPublic: (publicId: string): RecordingRow | undefined => byPublicId.get(publicId),
    running: (): RecordingRow[] => running.all(),
    composing: (): RecordingRow[] => composing.all(),

    list({ projectId, environment }: Tenant, filter: RecordingFilter, after: RecordingPosition, limit: number) {
      const { statement, values } = listed({ "room_id = ?": filter.roomId, "status = ?": filter.status });
      return statement.all(projectId, environment, ...values, after.startedAt, after.id, limit);
    },

    /** Oldest first. */
    endedBefore: (before: number, limit: number): RecordingRow[] => endedBefore.all(before, limit),

    files: (recordingId: string): RecordingFileRow[] => files.all(recordingId),
    /** All files, including the composition. */
    allFiles: (recordingId: string): RecordingFileRow[] => allFiles.all(recordingId),
    fileCount: (recordingId: string): number => fileCount.get(recordingId)?.files ?? 0,
    file: (id: string): RecordingFileRow | undefined => file.get(id),
    events: (recordingId: string, afterSeq: number, limit: number): RecordingEventRow[] =>
      events.all(recordingId, afterSeq, limit),
    nextEventSeq: (recordingId: string): number => (lastEvent.get(recordingId)?.seq ?? -1) + 1,

    insert: inserter<RecordingRow>(client, recordings),
    countEncryptedTrack: (unit: Unit, id: string) => void countEncryptedTrack.run(unit, id),
    update: updater(client, recordings),
    remove: (unit: Unit, id: string) => void remove.run(unit, id),
    saveFile: inserter<RecordingFileRow>(
      client,
      recordingFiles,
      `ON CONFLICT (recording_id, id) DO UPDATE SET
       offset_ms = excluded.offset_ms, duration_ms = excluded.duration_ms, bytes = excluded.bytes`,
    ),
    removeFile: (unit: Unit, recordingId: string, id: string) => void removeFile.run(unit, recordingId, id),
    addEvents(unit: Unit, added: readonly RecordingEventRow[]): void {
      for (const row of added) addEvent(unit, row);
    },
  };
}
