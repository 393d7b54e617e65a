import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { RecordingStatus } from "../../protocol/enums.ts";
import { RECORDED_FILE_NAME, type RecordedFile } from "../../protocol/media/recording.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { Hls } from "./hls/hls.ts";
import type { OpenFiles } from "./open-files.ts";
import type { StorageLocations } from "./storage-locations/storage-locations.ts";
import { showRecording } from "./recording.show.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingFileRow, RecordingRow } from "./recording.table.ts";
import type { Timeline } from "./timeline.ts";

/** Where a file lies. */
export type FilePlace = Pick<RecordingFileRow, "location" | "serverName">;

type Deps = {
  store: RecordingStore;
  rooms: Pick<RoomService, "markRecording">;
  places: Pick<StorageLocations, "moveOn">;
  hls: Pick<Hls, "end">;
  openFiles: OpenFiles;
  timeline: Timeline;
};

/** A track makes one file, or several when its codec changes; nobody publishes more often in one recording. */
const MOST_FILES = 10_000;

const isNamedAfter = (fileId: string, fileName: string): boolean =>
  RECORDED_FILE_NAME.test(fileName) && fileName.slice(0, fileName.lastIndexOf(".")) === fileId;

function isSamePlace(
  known: RecordingFileRow,
  recordingId: string,
  { fileName, trackId }: Pick<RecordedFile, "fileName" | "trackId">,
  { location, serverName }: FilePlace,
): boolean {
  const isSame = known.recordingId === recordingId && known.fileName === fileName && known.trackId === trackId;
  return isSame && known.location === location && known.serverName === serverName;
}

/** What is on record of a recording, and who is told when that changes. */
export function createRecordKeeping({ bus, log, now }: Runtime, deps: Deps) {
  const { store, rooms, places, hls, openFiles, timeline } = deps;

  function tell(
    unit: Unit,
    row: RecordingRow,
    type: "recording.started" | "recording.ready" | "recording.failed",
  ): void {
    const { projectId, environment } = row;
    const data = { recording: showRecording(row, store.files(row.id), now()) };
    bus.publish(unit, "webhook", { type, projectId, environment, at: now(), data });
  }

  return {
    tell,

    /**
     * Only files that the recorder of this recording may have written, at the place where it writes. A file that is not
     * known is begun by the event that says so. Answers with the ids of those that were saved.
     */
    saveFiles(unit: Unit, recordingId: string, files: readonly RecordedFile[], place: FilePlace, isBegun: boolean) {
      const saved = new Set<string>();
      if (!store.get(recordingId)) return saved;
      for (const { fileId, ...file } of files) {
        const known = store.file(fileId);
        const isItsOwn = known
          ? isSamePlace(known, recordingId, file, place)
          : isBegun && isNamedAfter(fileId, file.fileName) && store.fileCount(recordingId) < MOST_FILES;
        if (isItsOwn) {
          store.saveFile(unit, { ...file, recordingId, id: fileId, ...place });
          saved.add(fileId);
        } else log.warn({ recordingId, serverName: place.serverName }, "recording: file of a media node refused");
      }
      store.update(unit, recordingId, { lastSeenAt: now() });
      return saved;
    },

    /** Its last state on record, and everybody told. Again for one that has ended: no effect. */
    end(unit: Unit, id: string, status: Exclude<RecordingStatus, "RECORDING">, at: number, error: string | null): void {
      const row = store.get(id);
      if (row?.status !== "RECORDING") return;
      hls.end(id);
      openFiles.allEnded(id);
      timeline.flush(unit, id);
      store.update(unit, id, { status, error, endedAt: at, lastSeenAt: at });
      rooms.markRecording(unit, row.roomId, false);
      const { projectId, roomId, startedAt } = row;
      bus.publish(unit, "recordingChanged", { roomId, active: false });
      unit.afterCommit(() => places.moveOn());
      if (store.files(id).length > 0) bus.publish(unit, "recordingEnded", { projectId, startedAt, endedAt: at });
      tell(unit, { ...row, status, error, endedAt: at }, status === "READY" ? "recording.ready" : "recording.failed");
    },

    /** Nobody waits for it to be written; when it is not, the log says so. */
    keep(written: Promise<unknown>): void {
      written.catch((err) => log.error({ err }, "recording: a change was not recorded"));
    },
  };
}
