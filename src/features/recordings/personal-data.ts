import { extname } from "node:path";
import { changeEach, pause, tenantPages } from "../../kernel/db/pages.ts";
import { changing, columnsOf, reading } from "../../kernel/db/statements.ts";
import { ERASED, type PersonalColumns, type PersonalData, type User } from "../../kernel/personal-data.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { withoutUser } from "../chat/redaction.ts";
import { type RecordingFileRow, recordingFiles } from "./recording.table.ts";
import type { Recordings } from "./recordings.ts";

const OF_RECORDING = "JOIN recordings r ON r.id = recording_id";

export const recordingPersonalColumns: PersonalColumns = {
  userIds: { "recording_files.identity": OF_RECORDING, "recording_events.identity": OF_RECORDING },
  content: ["recording_events.data"],
};

type NamingEvent = { recordingId: string; seq: number; data: string | null };

/** The recorded tracks of a user, and the events about the user in timelines of recordings. */
export function recordingPersonalData({ db, write }: Runtime, recordings: Recordings): PersonalData {
  const { $client: client } = db;
  const { locations } = recordings;
  const OF_TENANT = "r.project_id = ?1 AND r.environment = ?2";
  const tracks = reading<RecordingFileRow & { recordingPublicId: string }, [string, string, string]>(
    client,
    `SELECT ${columnsOf(recordingFiles, "f")}, r.public_id AS recordingPublicId
       FROM recording_files f JOIN recordings r ON r.id = f.recording_id WHERE ${OF_TENANT} AND f.identity = ?3`,
  );
  // A composition shows every participant, including the user. It can be composed again without the user.
  const composition = reading<RecordingFileRow, [string]>(
    client,
    `SELECT ${columnsOf(recordingFiles, "f")} FROM recordings r JOIN recording_files f
       ON f.recording_id = r.id AND f.id = json_extract(r.composition, '$.fileId') WHERE r.id = ?`,
  );
  const removeFile = changing<[string, string]>(
    client,
    "DELETE FROM recording_files WHERE recording_id = ? AND id = ?",
  );
  const removeComposition = changing<[string]>(client, "UPDATE recordings SET composition = NULL WHERE id = ?");
  const recordingIds = reading<{ id: string }, [string, string, string, string]>(
    client,
    `SELECT r.id FROM recordings r WHERE ${OF_TENANT} AND r.id > ?3 AND r.id <= ?4`,
  );
  const events = reading<NamingEvent, [string, string, string]>(
    client,
    `SELECT recording_id AS recordingId, seq, data FROM recording_events
       WHERE recording_id = ?1 AND (identity = ?2 OR instr(data, ?3) > 0)`,
  );
  const rewriteEvent = changing<[string, number, string, string | null]>(
    client,
    `UPDATE recording_events SET identity = iif(identity = ?3, '${ERASED}', identity), data = ?4
       WHERE recording_id = ?1 AND seq = ?2`,
  );

  const tracksOf = ({ projectId, environment, userId }: User) => tracks.all(projectId, environment, userId);

  /** Recordings are read one by one, because a timeline can be long. */
  async function* eventsNaming({ projectId, environment, userId }: User): AsyncGenerator<NamingEvent[]> {
    const ids = tenantPages(db, "recordings", { projectId, environment }, (after, until) =>
      recordingIds.all(projectId, environment, after, until),
    );
    for await (const page of ids) {
      for (const { id } of page) {
        yield events.all(id, userId, JSON.stringify(userId));
        await pause();
      }
    }
  }

  return {
    kinds: {
      recordedTracks: async function* (user) {
        yield tracksOf(user).map(({ recordingId: _, recordingPublicId, ...track }) => ({
          recordingId: recordingPublicId,
          ...track,
        }));
      },
    },

    async *files(user) {
      for (const track of tracksOf(user)) {
        // A file that is not downloaded from its media node yet is in the next export.
        if (track.location === "node" || track.location === "lost") continue;
        const name = `recordings/${track.id}${extname(track.fileName)}`;
        yield { name, bytes: track.bytes, open: (path) => locations.copyOf(track, path) };
      }
    },

    async erase(user) {
      const { userId } = user;
      await recordings.settled(user, userId);
      for (const track of tracksOf(user)) {
        const files = [track, ...composition.all(track.recordingId)];
        await locations.remove(files, (unit) => {
          for (const { recordingId, id } of files) removeFile.run(unit, recordingId, id);
          removeComposition.run(unit, track.recordingId);
        });
      }
      await changeEach(write, eventsNaming(user), (unit, { recordingId, seq, data }) => {
        const redacted = data === null ? null : JSON.stringify(withoutUser(JSON.parse(data), userId));
        rewriteEvent.run(unit, recordingId, seq, userId, redacted);
      });
    },
  };
}
