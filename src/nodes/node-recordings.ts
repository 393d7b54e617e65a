/** The recorded files of a media node, which the node keeps until the control plane has downloaded them. */
import { rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { StartRecording } from "../protocol/media/recording.ts";
import type { MediaEvent } from "../protocol/media-node.ts";

export type NodeRecordings = ReturnType<typeof nodeRecordings>;

const RECORDING_ID = /^[0-9a-f-]{36}$/;
const FILE_NAME = /^[0-9a-f-]{36}\.(?:webm|mp4)$/;

export function nodeRecordings(folder: string) {
  /** Rooms by running recording. */
  const running = new Map<string, string>();

  return {
    /** The node chooses the directory, regardless of the request of the control plane. */
    begin(request: StartRecording): StartRecording {
      const { recordingId, roomId } = request;
      if (!RECORDING_ID.test(recordingId)) throw new Error("not the id of a recording");
      running.set(recordingId, roomId);
      return { ...request, directory: join(folder, recordingId) };
    },

    onEvent(event: MediaEvent): void {
      if (event.type === "recordingEnded" || event.type === "recordingFailed") running.delete(event.recordingId);
      if (event.type !== "workerCrashed") return;
      const ended = event.rooms.filter(({ remains, recordingEnds }) => !remains || recordingEnds);
      const lost = new Set(ended.map(({ roomId }) => roomId));
      for (const [recordingId, roomId] of running) if (lost.has(roomId)) running.delete(recordingId);
    },

    isRunning: (recordingId: string): boolean => running.has(recordingId),

    /** Returns null unless both names have the expected form. */
    pathOf: (recordingId: string, fileName: string): string | null =>
      RECORDING_ID.test(recordingId) && FILE_NAME.test(fileName) ? join(folder, recordingId, fileName) : null,

    async remove(path: string): Promise<void> {
      await rm(path, { force: true });
      // The directory is removed with its last file.
      await rmdir(dirname(path)).catch(() => {});
    },
  };
}
