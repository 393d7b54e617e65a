import type { Database } from "bun:sqlite";
import { closeSync, fsyncSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { BUSY_TIMEOUT_MS } from "./open.ts";

/** So much at a time, so that no commit waits for long. */
const CHUNK_BYTES = 2 * 1024 * 1024;
const PAUSE_MS = 2;

const BTREE_PAGES = new Set([0x02, 0x05, 0x0a, 0x0d]);
const INTERIOR_PAGES = new Set([0x02, 0x05]);
/** Page 1 begins with the header of the file. */
const FILE_HEADER_BYTES = 100;

/** Past this many pages (64 GB) the first byte of a page no longer tells what kind it is. */
const MOST_PAGES = 2 ** 24;

/** Somebody reads an older state (a backup): the log cannot be folded in before they have done. */
export class ScrubDelayed extends Error {
  override readonly name = "ScrubDelayed";
}

/**
 * Overwrites what deleted rows leave behind. `secure_delete` does that for the cells themselves; but when SQLite moves
 * rows from one page to another, copies stay in the unused middle of the first. What stands there is never read, so it
 * may be cleared in the file itself, page by page, while nothing newer waits in the log and nobody writes.
 */
export async function scrubDatabase(client: Database): Promise<void> {
  const path = client.filename;
  if (path === "" || path === ":memory:") return;
  const pageBytes = client.query<{ page_size: number }, []>("PRAGMA page_size").get()?.page_size ?? 4096;
  if (statSync(path).size / pageBytes >= MOST_PAGES) return;
  for (let at = 0; at < statSync(path).size; at += CHUNK_BYTES) {
    scrubChunk(client, path, at, pageBytes);
    await Bun.sleep(PAUSE_MS);
  }
  emptyLog(client);
}

/** In one go, without an await: between the empty log and the last byte written nothing may change. */
function scrubChunk(client: Database, path: string, at: number, pageBytes: number): void {
  emptyLog(client);
  client.run("BEGIN IMMEDIATE");
  const file = openSync(path, "r+");
  try {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    const length = readSync(file, chunk, 0, CHUNK_BYTES, at);
    let changed = false;
    for (let page = 0; page + pageBytes <= length; page += pageBytes) {
      const gap = unusedOf(chunk.subarray(page, page + pageBytes), at + page === 0 ? FILE_HEADER_BYTES : 0);
      if (gap === null || chunk.subarray(page + gap.start, page + gap.end).every((byte) => byte === 0)) continue;
      writeSync(file, Buffer.alloc(gap.end - gap.start), 0, gap.end - gap.start, at + page + gap.start);
      changed = true;
    }
    if (changed) fsyncSync(file);
  } finally {
    closeSync(file);
    client.run("ROLLBACK");
    // Pages that are still in memory would bring back what was cleared in the file.
    client.run("PRAGMA shrink_memory");
  }
}

function emptyLog(client: Database): void {
  // Without waiting: everybody else waits for this thread.
  client.run("PRAGMA busy_timeout = 0");
  const result = client.query<{ busy: number }, []>("PRAGMA wal_checkpoint(TRUNCATE)").get();
  client.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  if (result?.busy !== 0) throw new ScrubDelayed("somebody reads an older state of the database");
}

/** Between the pointers to a page's cells and the first of them; null for pages of another kind. */
function unusedOf(page: Buffer, header: number): { start: number; end: number } | null {
  const kind = page.readUInt8(header);
  if (!BTREE_PAGES.has(kind)) return null;
  const start = header + (INTERIOR_PAGES.has(kind) ? 12 : 8) + 2 * page.readUInt16BE(header + 3);
  const end = page.readUInt16BE(header + 5) || 65_536;
  return start < end && end <= page.length ? { start, end } : null;
}
