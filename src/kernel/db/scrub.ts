import type { Database } from "bun:sqlite";
import { closeSync, fsyncSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { BUSY_TIMEOUT_MS } from "./open.ts";

/** So much at a time, so that no commit waits for long. */
const CHUNK_BYTES = 1024 * 1024;
const PAUSE_MS = 4;

const BTREE_PAGES = new Set([0x02, 0x05, 0x0a, 0x0d]);
const INTERIOR_PAGES = new Set([0x02, 0x05]);
/** Page 1 begins with the header of the file. */
const FILE_HEADER_BYTES = 100;
const HOLE_HEADER_BYTES = 4;

/** Past this many pages (64 GB) the first byte of a page no longer tells what kind it is. */
const MOST_PAGES = 2 ** 24;

/** Somebody reads an older state (a backup): the log cannot be folded in before they have done. */
export class ScrubDelayed extends Error {
  override readonly name = "ScrubDelayed";
}

/**
 * Overwrites what deleted rows leave behind. `secure_delete` does that for the cells themselves; but when SQLite moves
 * rows from one page to another, copies stay in the unused middle of the first, and a file that came out of a backup was
 * written without it: there, copies stand in the holes between cells, too. What stands in either is never read, so it may
 * be cleared in the file itself, page by page, while nothing newer waits in the log and nobody writes.
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
      const bytes = chunk.subarray(page, page + pageBytes);
      for (const { start, end } of unusedOf(bytes, at + page === 0 ? FILE_HEADER_BYTES : 0)) {
        if (isClear(bytes.subarray(start, end))) continue;
        writeSync(file, Buffer.alloc(end - start), 0, end - start, at + page + start);
        changed = true;
      }
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

/** Nobody's page is larger. */
const ZEROS = Buffer.alloc(65_536);

function isClear(bytes: Buffer): boolean {
  return bytes.equals(ZEROS.subarray(0, bytes.length));
}

type Stretch = { start: number; end: number };

/** Between the pointers to a page's cells and the first of them, and what is free between cells; of other pages nothing. */
function unusedOf(page: Buffer, header: number): Stretch[] {
  const kind = page.readUInt8(header);
  if (!BTREE_PAGES.has(kind)) return [];
  const start = header + (INTERIOR_PAGES.has(kind) ? 12 : 8) + 2 * page.readUInt16BE(header + 3);
  const end = page.readUInt16BE(header + 5) || 65_536;
  if (start > end || end > page.length) return [];
  return [{ start, end }, ...holesOf(page, page.readUInt16BE(header + 1), end)];
}

/** Each begins with where the next one is and its own length; they stand in order. A list that does not is left alone. */
function holesOf(page: Buffer, first: number, contentStart: number): Stretch[] {
  const holes: Stretch[] = [];
  for (let at = first, least = contentStart; at !== 0; ) {
    if (at < least || at + HOLE_HEADER_BYTES > page.length) return [];
    const end = at + page.readUInt16BE(at + 2);
    if (end < at + HOLE_HEADER_BYTES || end > page.length) return [];
    holes.push({ start: at + HOLE_HEADER_BYTES, end });
    least = end;
    at = page.readUInt16BE(at);
  }
  return holes;
}
