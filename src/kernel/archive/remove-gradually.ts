import { open, rm } from "node:fs/promises";

const STEP_BYTES = 4 * 1024 * 1024;

/**
 * Truncates a file step by step before it is removed. Removing 100 MB in one go blocks the file system's journal, and
 * with it every commit of the server, for a tenth of a second or more. A missing file is not an error.
 */
export async function removeGradually(path: string): Promise<void> {
  const file = await open(path, "r+").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (file === null) return;
  try {
    for (let { size } = await file.stat(); size > 0; ) {
      size = Math.max(0, size - STEP_BYTES);
      await file.truncate(size);
    }
  } finally {
    await file.close();
  }
  await rm(path, { force: true });
}
