import { mkdir, rm, stat, statfs } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Config } from "../../kernel/config/index.ts";

/** Where the files of recordings are. */
export function recordingFolder({ RECORDING_DIR, DATA_DIR }: Pick<Config, "RECORDING_DIR" | "DATA_DIR">) {
  const root = RECORDING_DIR ?? join(DATA_DIR, "recordings");
  const of = (recordingId: string) => join(root, recordingId);

  /** Older builds stored unchecked what a media node called its files, so a row is not trusted to name one. */
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

    /** With what a broken fetch left of it. A name that leads out of the folder removes nothing. */
    async removeFile(recordingId: string, fileName: string): Promise<void> {
      if (!contains(recordingId, fileName)) return;
      await rm(file(recordingId, fileName), { force: true });
      await rm(`${file(recordingId, fileName)}.part`, { force: true });
    },

    /** Null when there is no such file. */
    async bytes(recordingId: string, fileName: string): Promise<number | null> {
      try {
        return (await stat(file(recordingId, fileName))).size;
      } catch {
        return null;
      }
    },

    /** Of the file system it lies on, as far up as it exists. */
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
