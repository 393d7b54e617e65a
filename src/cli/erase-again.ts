import { join } from "node:path";
import { findUsersToErase, readErasures } from "../features/privacy/erasure-list.ts";
import type { Config } from "../kernel/config/index.ts";
import { BackupRefused, DATABASE, type Description } from "../kernel/data-directory/data-contents.ts";
import { SecretMismatch } from "../kernel/data-directory/installation.ts";
import { closeDatabase, openDatabase } from "../kernel/db/open.ts";
import { closeRuntime, createRuntime } from "../kernel/runtime.ts";
import { createServices, personalColumns } from "../services.ts";

/** Repeats erasures in a restored backup that were made after the backup, before a server reads it. */
export function eraseAgain(config: Config) {
  let erased = 0;
  let unreadable = 0;

  async function prepare(folder: string, { createdAt }: Description): Promise<void> {
    const listed = readErasures(config.DATA_DIR).filter(({ at }) => at >= Date.parse(createdAt));
    if (listed.length === 0) return;
    const db = openDatabase(join(folder, DATABASE));
    const { found, ...rest } = findUsersToErase(db, personalColumns, config, listed);
    closeDatabase(db);
    unreadable = rest.unreadable;
    if (found.length === 0) return;
    const runtime = openRestored({ ...config, DATA_DIR: folder, LOG_LEVEL: "silent" });
    try {
      await createServices(runtime).privacy.erasures.eraseAgain(found);
    } finally {
      await closeRuntime(runtime);
    }
    erased = found.length;
  }

  return { prepare, erasedAgain: () => erased, unreadable: () => unreadable };
}

function openRestored(config: Config) {
  try {
    return createRuntime(config);
  } catch (error) {
    throw error instanceof SecretMismatch ? new BackupRefused(error.message) : error;
  }
}
