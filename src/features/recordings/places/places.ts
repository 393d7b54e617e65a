import { existsSync } from "node:fs";
import { readdir, rename } from "node:fs/promises";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { MediaNodes } from "../../../nodes/nodes.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { AttachmentRemovals } from "../../chat/attachments/attachment.removals.ts";
import type { Storages } from "../../storage/storages.ts";
import type { RecordingStore } from "../recording.store.ts";
import type { RecordingFileRow } from "../recording.table.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import { createFetches } from "./fetches.ts";
import { objectKeyOf } from "./object-key.ts";
import { placesStore } from "./places.store.ts";
import { createUploads } from "./uploads.ts";

type Deps = {
  store: RecordingStore;
  folder: RecordingFolder;
  storages: Storages;
  removals: Pick<AttachmentRemovals, "queueAt" | "run">;
  nodes: Pick<MediaNodes, "find">;
};

export const FILE_LOST = "The media node that wrote the file has lost it.";

/** Where recorded files lie, and how they get from one place to the next: media node, this server, bucket. */
export type Places = ReturnType<typeof createPlaces>;

export function createPlaces(runtime: Runtime, deps: Deps) {
  const { store, folder, storages, removals, nodes } = deps;
  const { db, log, now, write } = runtime;
  const places = placesStore(db);
  const uploads = createUploads(runtime, { store, places, folder, storages });
  const fetches = createFetches(runtime, { store, places, folder, nodes });

  const localPath = ({ recordingId, fileName }: RecordingFileRow) => folder.file(recordingId, fileName);

  /** The bytes of these rows, which the same unit removes, are wanted no more, wherever they lie. */
  function forget(unit: Unit, files: readonly RecordingFileRow[]): void {
    for (const file of files) {
      const { location, serverName, recordingId, fileName } = file;
      if (!folder.contains(recordingId, fileName)) continue;
      if (location === "s3") removals.queueAt(unit, now(), objectKeyOf(file), "s3");
      if (serverName !== null) places.addLeftover(unit, { serverName, recordingId, fileName });
    }
  }

  /** Fetches what is on nodes and moves what is here to the bucket. Resolves when nothing more can be done now. */
  async function run(): Promise<void> {
    const fetched = fetches.run();
    // What is here goes on, however long a node takes.
    await Promise.allSettled([uploads.run()]);
    await fetched;
    await uploads.run();
  }

  function moveOn(): void {
    run().catch((err) => log.error({ err }, "recorded files stay where they are"));
  }

  /** A path on this machine: its own, or `path`, once it was copied there from the bucket. */
  async function copyOf(file: RecordingFileRow, path: string): Promise<string> {
    if (file.location !== "s3") return localPath(file);
    const s3 = storages.at("s3");
    if (!s3) throw new Error("the file is in a bucket that is not configured any more");
    return s3.onThisMachine(objectKeyOf(file), path);
  }

  /** The copies here of what lies in the bucket. */
  async function letGo(recordingId: string): Promise<void> {
    for (const file of store.allFiles(recordingId)) {
      if (file.location === "s3") await folder.removeFile(recordingId, file.fileName);
    }
  }

  return {
    /**
     * Removes files with what `removeRows` changes. What lies here goes first: a crash in between leaves rows that are found
     * again. Where a bucket or a node does not answer, it is removed there later.
     */
    async remove(files: readonly RecordingFileRow[], removeRows: (unit: Unit) => void): Promise<void> {
      for (const { recordingId, fileName } of files) await folder.removeFile(recordingId, fileName);
      await write((unit) => {
        forget(unit, files);
        removeRows(unit);
      });
      const fileIds = files.map(({ id }) => id);
      await Promise.all([uploads.giveUp(fileIds), fetches.removeLeftovers(), removals.run()]);
    },

    /** A path on this machine, or an address of the bucket that is good for so long. */
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

    /** A path on this machine; what lies in the bucket is copied to where it lay before, until `letGo`. */
    async bringHere(file: RecordingFileRow): Promise<string> {
      const path = localPath(file);
      if (file.location !== "s3" || existsSync(path)) return path;
      await folder.make(file.recordingId);
      await rename(await copyOf(file, `${path}.part`), path);
      return path;
    },

    letGo,

    /** Copies of what is in the bucket that a crash left here. */
    async recover(): Promise<void> {
      if (storages.uploads === null) return;
      for (const recordingId of await readdir(folder.root).catch(() => [])) await letGo(recordingId);
    },

    /** Fetches what nodes have of one recording. Resolves when nothing more of it can be had now. */
    fetch: (recordingId: string): Promise<void> => fetches.of(recordingId),

    run,

    /** The same, and nobody waits for it. */
    moveOn,

    /** A node has reported: it may be back with files. */
    nodeSeen(serverName: string): void {
      if (places.hasFilesOn(serverName)) moveOn();
    },

    async stop(): Promise<void> {
      await Promise.all([fetches.stop(), uploads.stop()]);
    },
  };
}
