import { mkdir, rm, stat, statfs } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Config } from "../../kernel/config/index.ts";

/** The local folder with the files of recordings. */
export function recordingFolder({ RECORDING_DIR, DATA_DIR }: Pick<Config, "RECORDING_DIR" | "DATA_DIR">) {
  const root = RECORDING_DIR ?? join(DATA_DIR, "recordings");
  const of = (recordingId: string) => join(root, recordingId);

  /** Older versions stored unchecked file names of media nodes, so a name in a row is not trusted. */
  const contains = (recordingId: string, fileName: string): boolean =>
    fileName !== "" &&
    !fileName.includes("\0") &&
    dirname(resolve(of(recordingId), fileName)) === resolve(of(recordingId));

  function file(recordingId: string, fileName: string): string {
    if (!contains(recordingId, fileName)) throw new Error("the file's name leads out of its recording's folder");
    return join(of(recordingId), fileName);
  }

  return {
    root,
    of,
    make: (recordingId: string) => mkdir(of(recordingId), { recursive: true, mode: 0o700 }),
    contains,
    file,
    remove: (recordingId: string) => rm(of(recordingId), { recursive: true, force: true }),

    /** Removes the file and the rest of an interrupted download. A name outside of the folder removes nothing. */
    async removeFile(recordingId: string, fileName: string): Promise<void> {
      if (!contains(recordingId, fileName)) return;
      await rm(file(recordingId, fileName), { force: true });
      await rm(`${file(recordingId, fileName)}.part`, { force: true });
    },

    /** Null when the file does not exist. */
    async bytes(recordingId: string, fileName: string): Promise<number | null> {
      try {
        return (await stat(file(recordingId, fileName))).size;
      } catch {
        return null;
      }
    },

    /** Free space of the file system; the folder itself may not exist yet. */
    async freeBytes(): Promise<number> {
      for (let path = root; ; path = dirname(path)) {
        try {
          const { bavail, bsize } = await statfs(path);
          return bavail * bsize;
        } catch (error) {
          if ((error as { code?: string }).code !== "ENOENT" || dirname(path) === path) throw error;
        }
      }
    },
  };
}

export type RecordingFolder = ReturnType<typeof recordingFolder>;
