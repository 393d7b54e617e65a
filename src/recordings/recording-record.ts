import type { Unit } from "../kernel/db/writer.ts";
import type { RecordingStatus } from "../protocol/enums.ts";
import { RECORDED_FILE_NAME, type RecordedFile } from "../protocol/media/recording.ts";
import type { RoomService } from "../rooms/room.service.ts";
import type { Runtime } from "../runtime.ts";
import type { Hls } from "./hls/hls.ts";
import type { OpenFiles } from "./open-files.ts";
import type { Places } from "./places/places.ts";
import { showRecording } from "./recording.show.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingFileRow, RecordingRow } from "./recording.table.ts";
import type { Timeline } from "./timeline.ts";

/** Where a file lies. */
export type FilePlace = Pick<RecordingFileRow, "location" | "serverName">;

type Deps = {
  store: RecordingStore;
  rooms: Pick<RoomService, "markRecording">;
  places: Pick<Places, "moveOn">;
  hls: Pick<Hls, "end">;
  openFiles: OpenFiles;
  timeline: Timeline;
};

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
    bus.announce(unit, "webhook", { type, projectId, environment, at: now(), data });
  }

  return {
    tell,

    saveFiles(unit: Unit, recordingId: string, files: readonly RecordedFile[], place: FilePlace): void {
      if (!store.get(recordingId)) return;
      for (const { fileId, ...file } of files) {
        const known = store.file(fileId);
        if (!RECORDED_FILE_NAME.test(file.fileName) || (known && known.recordingId !== recordingId))
          log.warn({ recordingId, serverName: place.serverName }, "recording: file of a media node refused");
        else store.saveFile(unit, { ...file, recordingId, id: fileId, ...place });
      }
      store.update(unit, recordingId, { lastSeenAt: now() });
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
      bus.announce(unit, "recordingChanged", { roomId, active: false });
      unit.afterCommit(() => places.moveOn());
      if (store.files(id).length > 0) bus.announce(unit, "recordingEnded", { projectId, startedAt, endedAt: at });
      tell(unit, { ...row, status, error, endedAt: at }, status === "READY" ? "recording.ready" : "recording.failed");
    },

    /** Nobody waits for it to be written; when it is not, the log says so. */
    keep(written: Promise<void>): void {
      written.catch((err) => log.error({ err }, "recording: a change was not recorded"));
    },
  };
}
