import { freeBytes } from "../../kernel/db/disk.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import { storageUsageStore } from "./usage.store.ts";

/** The file to be stored; `userId` is null for the server itself. */
type StorageRequest = { projectId: string; userId: string | null; bytes: number };

export type StorageQuota = ReturnType<typeof storageQuota>;

/**
 * Limits what users store: the quotas of project and user, and the reserve of the disk. The reserve keeps messages,
 * logins and deletions working when there is no space for another file.
 */
export function storageQuota({ config, db }: Runtime) {
  const usage = storageUsageStore(db);
  const { STORAGE_MAX_PROJECT_BYTES: perProject, STORAGE_MAX_USER_BYTES: perUser } = config;
  /** Bytes of uploads that are not on disk yet. */
  let reserved = 0;

  function requireFree(bytes: number): void {
    if (freeBytes(config.DATA_DIR) - reserved - bytes >= config.STORAGE_MIN_FREE_BYTES) return;
    throw new ApiError("SVC_STORAGE_FULL", "The server's disk has no space for this.");
  }

  return {
    /** Throws when a quota is exceeded; a quota of 0 means no limit. */
    require({ projectId, userId, bytes }: StorageRequest): void {
      if (perProject > 0 && usage.ofProject(projectId) + bytes > perProject) {
        throw new ApiError("SVC_STORAGE_FULL", `The project may store ${perProject} bytes. Delete something first.`);
      }
      if (perUser > 0 && userId !== null && usage.ofUser(projectId, userId) + bytes > perUser) {
        throw new ApiError("SVC_STORAGE_FULL", `A user may store ${perUser} bytes. Delete something first.`);
      }
    },

    /** Throws unless this server's disk has space besides its reserve. */
    requireFree,

    /** Reserves space for an upload until `work` is done. */
    async reserve<T>(bytes: number, work: () => Promise<T>): Promise<T> {
      requireFree(bytes);
      reserved += bytes;
      try {
        return await work();
      } finally {
        reserved -= bytes;
      }
    },
  };
}
