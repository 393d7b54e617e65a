import { existsSync } from "node:fs";
import { readdir, rename } from "node:fs/promises";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { MediaNodes } from "../../../nodes/media-nodes.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { AttachmentRemovals } from "../../chat/attachments/attachment.removals.ts";
import type { Storages } from "../../storage/storages.ts";
import type { RecordingStore } from "../recording.store.ts";
import type { RecordingFileRow } from "../recording.table.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import { createBucketUploads } from "./bucket-uploads.ts";
import { createNodeDownloads } from "./node-downloads.ts";
import { objectKeyOf, storageLocationStore } from "./storage-locations.store.ts";

type Deps = {
  store: RecordingStore;
  folder: RecordingFolder;
  storages: Storages;
  removals: Pick<AttachmentRemovals, "queueAt" | "run">;
  nodes: Pick<MediaNodes, "find">;
};

export const FILE_LOST = "The media node that wrote the file has lost it.";

export type StorageLocations = ReturnType<typeof createStorageLocations>;

/** The locations of recorded files and their moves: from the media node to this disk, and from there to the bucket. */
export function createStorageLocations(runtime: Runtime, deps: Deps) {
  const { store, folder, storages, removals, nodes } = deps;
  const { db, log, now, write } = runtime;
  const locations = storageLocationStore(db);
  const uploads = createBucketUploads(runtime, { store, locations, folder, storages });
  const downloads = createNodeDownloads(runtime, { store, locations, folder, nodes });

  const localPath = ({ recordingId, fileName }: RecordingFileRow) => folder.file(recordingId, fileName);

  /** Queues the removal of files from the bucket and from nodes; the same unit of work removes their rows. */
  function queueRemoval(unit: Unit, files: readonly RecordingFileRow[]): void {
    for (const file of files) {
      const { location, serverName, recordingId, fileName } = file;
      if (!folder.contains(recordingId, fileName)) continue;
      if (location === "s3") removals.queueAt(unit, now(), objectKeyOf(file), "s3");
      if (serverName !== null) locations.addLeftover(unit, { serverName, recordingId, fileName });
    }
  }

  /** Downloads files from nodes and uploads files to the bucket. Resolves when no more files can be moved now. */
  async function moveFiles(): Promise<void> {
    const downloaded = downloads.run();
    // Uploads of local files do not wait for a slow node.
    await Promise.allSettled([uploads.run()]);
    await downloaded;
    await uploads.run();
  }

  function moveFilesInBackground(): void {
    moveFiles().catch((err) => log.error({ err }, "recordings: moving files to their storage location failed"));
  }

  /** Returns a path on this machine: the file's own, or `path` after it was copied there from the bucket. */
  async function copyOf(file: RecordingFileRow, path: string): Promise<string> {
    if (file.location !== "s3") return localPath(file);
    const s3 = storages.at("s3");
    if (!s3) throw new Error("the file is in a bucket that is not configured any more");
    return s3.onThisMachine(objectKeyOf(file), path);
  }

  /** Removes the local copies of files that are in the bucket. */
  async function removeCopies(recordingId: string): Promise<void> {
    for (const file of store.allFiles(recordingId)) {
      if (file.location === "s3") await folder.removeFile(recordingId, file.fileName);
    }
  }

  return {
    /**
     * Removes files and, with `removeRows`, their rows. Local files are removed first: after a crash in between, the
     * rows still exist and the removal is repeated. If the bucket or a node does not respond, its file is removed
     * later.
     */
    async remove(files: readonly RecordingFileRow[], removeRows: (unit: Unit) => void): Promise<void> {
      for (const { recordingId, fileName } of files) await folder.removeFile(recordingId, fileName);
      await write((unit) => {
        queueRemoval(unit, files);
        removeRows(unit);
      });
      const fileIds = files.map(({ id }) => id);
      await Promise.all([uploads.cancel(fileIds), downloads.removeLeftovers(), removals.run()]);
    },

    /** Returns a path on this machine, or a signed URL of the bucket. */
    async open(
      file: RecordingFileRow,
      filename: string,
      ttlSeconds: number,
    ): Promise<{ size: number; path?: string; url?: string } | null> {
      const { id, mimeType, location } = file;
      const size = await folder.bytes(file.recordingId, file.fileName);
      if (location === "node")
        throw new ApiError("SVC_STORAGE_UNAVAILABLE", "The file is still on the media node that wrote it. Try later.");
      if (location === "lost") throw new ApiError("SVC_RECORDING_FILE_NOT_FOUND", FILE_LOST);
      if (location === "disk") return size === null ? null : { path: localPath(file), size };
      const s3 = storages.at("s3");
      if (!s3)
        throw new ApiError("SVC_STORAGE_UNAVAILABLE", "The file is in a bucket that is not configured any more.");
      const stored = { id, objectKey: objectKeyOf(file), filename, mimeType, size: file.bytes };
      return { url: s3.signDownload(stored, "", Math.max(1, Math.floor(ttlSeconds))), size: file.bytes };
    },

    copyOf,

    /** Returns a path on this machine. A file in the bucket is copied back to its old path, until `removeCopies`. */
    async copyBack(file: RecordingFileRow): Promise<string> {
      const path = localPath(file);
      if (file.location !== "s3" || existsSync(path)) return path;
      await folder.make(file.recordingId);
      await rename(await copyOf(file, `${path}.part`), path);
      return path;
    },

    removeCopies,

    /** Removes the copies that a crash left behind. */
    async recover(): Promise<void> {
      if (storages.uploads === null) return;
      for (const recordingId of await readdir(folder.root).catch(() => [])) await removeCopies(recordingId);
    },

    /** Downloads the files of one recording. Resolves when no more of them can be downloaded now. */
    download: (recordingId: string): Promise<void> => downloads.ofRecording(recordingId),

    moveFiles,
    moveFilesInBackground,

    /** A node that sends heartbeats again may have files. */
    nodeSeen(serverName: string): void {
      if (locations.hasFilesOn(serverName)) moveFilesInBackground();
    },

    async stop(): Promise<void> {
      await Promise.all([downloads.stop(), uploads.stop()]);
    },
  };
}
