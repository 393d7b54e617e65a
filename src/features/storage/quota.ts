import { freeBytes } from "../../kernel/db/disk.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import { storageUsageStore } from "./usage.store.ts";

/** Who is about to store something, and how much of it. */
export type Storing = { projectId: string; userId: string | null; bytes: number };

export type StorageQuota = ReturnType<typeof storageQuota>;

/**
 * Room for what users store: within the quotas of project and user, and never out of the reserve of the disk, which is
 * there for everything else. Messages, logins and deletions go on when there is no room for another file.
 */
export function storageQuota({ config, db }: Runtime, free = () => freeBytes(config.DATA_DIR)) {
  const usage = storageUsageStore(db);
  const { STORAGE_MAX_PROJECT_BYTES: perProject, STORAGE_MAX_USER_BYTES: perUser } = config;
  /** Bytes that are on their way to the disk, and will be missing there. */
  let underWay = 0;

  function requireFree(bytes: number): void {
    if (free() - underWay - bytes >= config.STORAGE_MIN_FREE_BYTES) return;
    throw new ApiError("SVC_STORAGE_FULL", "The server's disk has no room for this.");
  }

  return {
    /** Throws unless the quotas leave room; a quota of 0 is none. */
    require({ projectId, userId, bytes }: Storing): void {
      if (perProject > 0 && usage.ofProject(projectId) + bytes > perProject) {
        throw new ApiError("SVC_STORAGE_FULL", `The project may store ${perProject} bytes. Delete something first.`);
      }
      if (perUser > 0 && userId !== null && usage.ofUser(projectId, userId) + bytes > perUser) {
        throw new ApiError("SVC_STORAGE_FULL", `A user may store ${perUser} bytes. Delete something first.`);
      }
    },

    /** Throws unless this server's disk has room besides its reserve. */
    requireFree,

    /** The same for bytes that come now: others are told that their room is taken until `work` is done. */
    async reserve<T>(bytes: number, work: () => Promise<T>): Promise<T> {
      requireFree(bytes);
      underWay += bytes;
      try {
        return await work();
      } finally {
        underWay -= bytes;
      }
    },
  };
}
