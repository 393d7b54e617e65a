/** Returns the space of deleted rows to the disk. By itself SQLite keeps it in the file for later rows. */
import type { Database } from "bun:sqlite";
import type { Timers } from "../time/timers.ts";
import { addChecksumLayer, claimChecksums, hasChecksums, isShared, reserveChecksums } from "./checksums.ts";
import type { Writer } from "./writer.ts";

/** One megabyte per commit, which takes a few milliseconds; then other commits run. */
const PAGES_PER_STEP = 256;
const REST_MS = 50;
const STEPS_PER_RUN = 2_000;
/** This share of the pages stays free for the next rows. */
const FREE_PART = 1 / 10;
/**
 * A file up to this size is rewritten at the start, which takes about a second; a larger file is rewritten by `stoa
 * migrate --compact`.
 */
const REWRITE_MAX_BYTES = 64 * 1024 * 1024;
const INCREMENTAL = 2;

function pragma(client: Database, name: "auto_vacuum" | "freelist_count" | "page_count" | "page_size"): number {
  return Number(Object.values(client.query<Record<string, number>, []>(`PRAGMA ${name}`).get() ?? {})[0] ?? 0);
}

/** Whether free pages can be returned to the disk: a file of an earlier version has to be rewritten once. */
export function canShrink(client: Database): boolean {
  return pragma(client, "auto_vacuum") === INCREMENTAL;
}

const isInMemory = ({ filename }: Database) => filename === "" || filename === ":memory:";

/** Whether damage within a page is detected: a file of an earlier version has to be rewritten once to get checksums. */
export function isProtected(client: Database): boolean {
  return isInMemory(client) || !addChecksumLayer() || hasChecksums(client);
}

/**
 * Rewrites the whole file without free pages and with checksums. This needs free space of the same size, and nothing may
 * write at the same time.
 */
export function rewriteDatabase(client: Database): void {
  client.run("PRAGMA auto_vacuum = INCREMENTAL");
  const isComplete = isProtected(client);
  if (!isComplete) reserveChecksums(client);
  client.run("VACUUM");
  if (isComplete) return;
  const log = client.query<{ busy: number }, []>("PRAGMA wal_checkpoint(TRUNCATE)").get();
  // A reader keeps old pages in use; the next start tries again.
  if (log?.busy === 0) claimChecksums(client);
}

export function rewriteSmallDatabase(client: Database): void {
  if (canShrink(client) && (isProtected(client) || isShared(client))) return;
  if (pragma(client, "page_count") * pragma(client, "page_size") <= REWRITE_MAX_BYTES) rewriteDatabase(client);
}

/** Returns free pages to the disk in small steps, until a tenth of the file is free. */
export async function shrinkDatabase(client: Database, write: Writer["write"], timers: Timers): Promise<void> {
  if (!canShrink(client)) return;
  for (let step = 0; step < STEPS_PER_RUN; step++) {
    const surplus = Math.floor(pragma(client, "freelist_count") - pragma(client, "page_count") * FREE_PART);
    if (surplus < PAGES_PER_STEP) return;
    await write(() => void client.run(`PRAGMA incremental_vacuum(${PAGES_PER_STEP})`));
    await new Promise<void>((resolve) => timers.after(REST_MS, resolve));
  }
}
