import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type RecordingFileRow, recordingFiles } from "../../recordings/recording.table.ts";
import { ERASED, type Person } from "../person.ts";

type RecordedTrack = RecordingFileRow & { recordingPublicId: string };
type NamedIn = { recordingId: string; seq: number; identity: string | null; data: string | null };

/** Where recordings hold a person: the files of their tracks, and the timelines. */
export function recordingTraces({ $client: client }: Db) {
  const OF_TENANT = "r.project_id = ?1 AND r.environment = ?2";
  const tracks = reading(() =>
    client.prepare<RecordedTrack, [string, string, string]>(
      `SELECT ${columnsOf(recordingFiles, "f")}, r.public_id AS recordingPublicId
       FROM recording_files f JOIN recordings r ON r.id = f.recording_id WHERE ${OF_TENANT} AND f.identity = ?3`,
    ),
  );
  const removeTrack = changing(() => client.prepare("DELETE FROM recording_files WHERE recording_id = ? AND id = ?"));
  // A picture of everybody shows them, too; it can be made again without them.
  const composed = reading(() =>
    client.prepare<RecordingFileRow, [string]>(
      `SELECT ${columnsOf(recordingFiles, "f")} FROM recordings r JOIN recording_files f
       ON f.recording_id = r.id AND f.id = json_extract(r.composition, '$.fileId') WHERE r.id = ?`,
    ),
  );
  const removeComposed = changing(() =>
    client.prepare(
      `DELETE FROM recording_files WHERE recording_id = ?1 AND id =
       (SELECT json_extract(composition, '$.fileId') FROM recordings WHERE id = ?1)`,
    ),
  );
  const forgetComposition = changing(() => client.prepare("UPDATE recordings SET composition = NULL WHERE id = ?"));
  const page = reading(() =>
    client.prepare<{ id: string }, [string, string, string, number]>(
      `SELECT r.id FROM recordings r WHERE ${OF_TENANT} AND r.id > ?3 ORDER BY r.id LIMIT ?4`,
    ),
  );
  const naming = reading(() =>
    client.prepare<NamedIn, [string, string, string]>(
      `SELECT recording_id AS recordingId, seq, identity, data FROM recording_events
       WHERE recording_id = ?1 AND (identity = ?2 OR instr(data, ?3) > 0)`,
    ),
  );
  const rewrite = changing(() =>
    client.prepare(
      `UPDATE recording_events SET identity = iif(identity = ?3, '${ERASED}', identity), data = ?4
       WHERE recording_id = ?1 AND seq = ?2`,
    ),
  );

  return {
    tracks: ({ projectId, environment, userId }: Person): RecordedTrack[] => tracks.all(projectId, environment, userId),
    /** The file of the composition, if there is one. */
    composed: (recordingId: string): RecordingFileRow[] => composed.all(recordingId),
    removeTrack(unit: Unit, { recordingId, id }: RecordingFileRow): void {
      removeTrack.run(unit, recordingId, id);
      removeComposed.run(unit, recordingId);
      forgetComposition.run(unit, recordingId);
    },
    /** The tenant's recordings, whoever is in them. */
    recordings: ({ projectId, environment }: Person, afterId: string, limit: number): string[] =>
      page.all(projectId, environment, afterId, limit).map(({ id }) => id),
    /** What the timeline of a recording, which is bounded, tells of them. */
    events: (recordingId: string, userId: string): NamedIn[] => naming.all(recordingId, userId, JSON.stringify(userId)),
    rewriteEvent: (unit: Unit, { recordingId, seq }: NamedIn, userId: string, data: string | null) =>
      void rewrite.run(unit, recordingId, seq, userId, data),
  };
}
