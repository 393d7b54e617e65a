import { mkdir, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Config } from "../kernel/config/index.ts";

/** Where the files of recordings are. */
export function recordingFolder({ RECORDING_DIR, DATA_DIR }: Pick<Config, "RECORDING_DIR" | "DATA_DIR">) {
  const root = RECORDING_DIR ?? join(DATA_DIR, "recordings");
  const of = (recordingId: string) => join(root, recordingId);
  return {
    root,
    of,
    make: (recordingId: string) => mkdir(of(recordingId), { recursive: true, mode: 0o700 }),
    file: (recordingId: string, fileName: string) => join(of(recordingId), fileName),
    remove: (recordingId: string) => rm(of(recordingId), { recursive: true, force: true }),

    /** Null when there is no such file. */
    async bytes(recordingId: string, fileName: string): Promise<number | null> {
      try {
        return (await stat(join(of(recordingId), fileName))).size;
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
