import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { RecordingStatus } from "../../protocol/enums.ts";
import { RECORDED_FILE_NAME, type RecordedFile } from "../../protocol/media/recording.ts";
import type { RoomService } from "../rooms/room.service.ts";
import { presentRecording } from "./present-recording.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingFileRow, RecordingRow } from "./recording.table.ts";
import type { Timeline } from "./timeline.ts";

export type WrittenBy = Pick<RecordingFileRow, "location" | "serverName">;

type Deps = {
  store: RecordingStore;
  rooms: Pick<RoomService, "markRecording">;
  timeline: Timeline;
  onEnded: (recordingId: string) => void;
  /** Called after the commit that ends a recording. */
  onSaved: () => void;
};

/** A track results in one file, or in several when its codec changes. */
const MAX_FILES = 10_000;

const isNamedAfter = (fileId: string, fileName: string): boolean =>
  RECORDED_FILE_NAME.test(fileName) && fileName.slice(0, fileName.lastIndexOf(".")) === fileId;

function isSameFile(
  known: RecordingFileRow,
  recordingId: string,
  { fileName, trackId }: Pick<RecordedFile, "fileName" | "trackId">,
  { location, serverName }: WrittenBy,
): boolean {
  const isSame = known.recordingId === recordingId && known.fileName === fileName && known.trackId === trackId;
  return isSame && known.location === location && known.serverName === serverName;
}

/** The changes of a recording in the database, with the events and webhooks about them. */
export function createRecordingChanges({ bus, log, now }: Runtime, deps: Deps) {
  const { store, rooms, timeline, onEnded, onSaved } = deps;

  function publish(
    unit: Unit,
    row: RecordingRow,
    type: "recording.started" | "recording.ready" | "recording.failed",
  ): void {
    const { projectId, environment } = row;
    const data = { recording: presentRecording(row, store.files(row.id), now()) };
    bus.publish(unit, "webhook", { type, projectId, environment, at: now(), data });
  }

  return {
    publish,

    /**
     * Saves files that the recorder of this recording may have written, at its location. Other files that a media node
     * reports are rejected. Returns the ids of the saved files.
     */
    saveFiles(
      unit: Unit,
      recordingId: string,
      files: readonly RecordedFile[],
      writtenBy: WrittenBy,
      mayBeNew: boolean,
    ): Set<string> {
      const saved = new Set<string>();
      if (!store.get(recordingId)) return saved;
      for (const { fileId, ...file } of files) {
        const known = store.file(fileId);
        const isAccepted = known
          ? isSameFile(known, recordingId, file, writtenBy)
          : mayBeNew && isNamedAfter(fileId, file.fileName) && store.fileCount(recordingId) < MAX_FILES;
        if (isAccepted) {
          store.saveFile(unit, { ...file, recordingId, id: fileId, ...writtenBy });
          saved.add(fileId);
        } else
          log.warn(
            { recordingId, serverName: writtenBy.serverName },
            "recordings: rejected a file that a media node reported",
          );
      }
      store.update(unit, recordingId, { lastSeenAt: now() });
      return saved;
    },

    /** Has no effect on a recording that has ended. */
    end(unit: Unit, id: string, status: Exclude<RecordingStatus, "RECORDING">, at: number, error: string | null): void {
      const row = store.get(id);
      if (row?.status !== "RECORDING") return;
      onEnded(id);
      timeline.flush(unit, id);
      store.update(unit, id, { status, error, endedAt: at, lastSeenAt: at });
      const { projectId, environment, roomId, startedAt } = row;
      rooms.markRecording(unit, roomId, false);
      bus.publish(unit, "recordingChanged", { roomId, active: false });
      unit.afterCommit(onSaved);
      if (store.files(id).length > 0)
        bus.publish(unit, "recordingEnded", { projectId, environment, startedAt, endedAt: at });
      const type = status === "READY" ? "recording.ready" : "recording.failed";
      publish(unit, { ...row, status, error, endedAt: at }, type);
    },

    /** Logs the failure of changes that no caller awaits. */
    logFailure(written: Promise<unknown>): void {
      written.catch((err) => log.error({ err }, "recordings: change not saved"));
    },
  };
}
