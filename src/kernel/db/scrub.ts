import type { Database } from "bun:sqlite";
import { closeSync, fsyncSync, openSync, readSync, statSync, writeSync } from "node:fs";
import { checksumIn, hasChecksums, pageChecksum } from "./checksums.ts";
import { BUSY_TIMEOUT_MS } from "./open.ts";

/** Chunks are small, so that no commit waits for long. */
const CHUNK_BYTES = 1024 * 1024;
const PAUSE_MS = 4;

const BTREE_PAGES = new Set([0x02, 0x05, 0x0a, 0x0d]);
const INTERIOR_PAGES = new Set([0x02, 0x05]);
/** Page 1 starts with the header of the file. */
const FILE_HEADER_BYTES = 100;
const FREEBLOCK_HEADER_BYTES = 4;

/** From this many pages on (64 GB) the first byte of a page no longer identifies its kind. */
const MAX_PAGES = 2 ** 24;

/** A reader (a backup) uses an older snapshot: the write-ahead log cannot be truncated until it is done. */
export class ScrubDelayed extends Error {
  override readonly name = "ScrubDelayed";
}

/**
 * Overwrites the traces of deleted rows. `secure_delete` overwrites the cells themselves, but when SQLite moves rows
 * from one page to another, copies stay in the unallocated space of the first, and a file restored from a backup was
 * written without it, so that its freeblocks (free space between cells) contain copies too. SQLite never reads either,
 * so they can be cleared in the file itself, page by page, while the write-ahead log is empty and nothing writes.
 */
export async function scrubDatabase(client: Database): Promise<void> {
  const path = client.filename;
  if (path === "" || path === ":memory:") return;
  const pageBytes = client.query<{ page_size: number }, []>("PRAGMA page_size").get()?.page_size ?? 4096;
  if (statSync(path).size / pageBytes >= MAX_PAGES) return;
  for (let at = 0; at < statSync(path).size; at += CHUNK_BYTES) {
    scrubChunk(client, path, at, pageBytes);
    await Bun.sleep(PAUSE_MS);
  }
  truncateLog(client);
}

/** This function runs without an await: nothing may change between truncating the log and writing the last byte. */
function scrubChunk(client: Database, path: string, at: number, pageBytes: number): void {
  truncateLog(client);
  client.run("BEGIN IMMEDIATE");
  const file = openSync(path, "r+");
  try {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    const length = readSync(file, chunk, 0, CHUNK_BYTES, at);
    const isSealed = hasChecksums(client);
    let changed = false;
    for (let page = 0; page + pageBytes <= length; page += pageBytes) {
      const bytes = chunk.subarray(page, page + pageBytes);
      const unused = unusedRangesOf(bytes, at + page === 0 ? FILE_HEADER_BYTES : 0);
      const used = unused.filter(({ start, end }) => !isZero(bytes.subarray(start, end)));
      // A new checksum would hide that the page is damaged, so a damaged page is left as it is.
      if (used.length === 0 || (isSealed && !checksumIn(bytes).equals(pageChecksum(bytes)))) continue;
      for (const { start, end } of used) bytes.fill(0, start, end);
      if (isSealed) pageChecksum(bytes).copy(checksumIn(bytes));
      writeSync(file, bytes, 0, pageBytes, at + page);
      changed = true;
    }
    if (changed) fsyncSync(file);
  } finally {
    closeSync(file);
    client.run("ROLLBACK");
    // SQLite would otherwise write its cached pages later, with the bytes that were cleared in the file.
    client.run("PRAGMA shrink_memory");
  }
}

function truncateLog(client: Database): void {
  // The checkpoint must not wait for a reader, which would block this thread.
  client.run("PRAGMA busy_timeout = 0");
  const result = client.query<{ busy: number }, []>("PRAGMA wal_checkpoint(TRUNCATE)").get();
  client.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  if (result?.busy !== 0) throw new ScrubDelayed("a reader uses an older snapshot of the database");
}

/** Zeros for a comparison; the length is that of SQLite's largest page. */
const ZEROS = Buffer.alloc(65_536);

function isZero(bytes: Buffer): boolean {
  return bytes.equals(ZEROS.subarray(0, bytes.length));
}

type ByteRange = { start: number; end: number };

/** The unallocated space between the cell pointers and the cells, and the freeblocks between cells, of a b-tree page. */
function unusedRangesOf(page: Buffer, header: number): ByteRange[] {
  const kind = page.readUInt8(header);
  if (!BTREE_PAGES.has(kind)) return [];
  const start = header + (INTERIOR_PAGES.has(kind) ? 12 : 8) + 2 * page.readUInt16BE(header + 3);
  const end = page.readUInt16BE(header + 5) || 65_536;
  if (start > end || end > page.length) return [];
  return [{ start, end }, ...freeblocksOf(page, page.readUInt16BE(header + 1), end)];
}

/** Each freeblock starts with the offset of the next and its own length, in order. A malformed list is not changed. */
function freeblocksOf(page: Buffer, first: number, contentStart: number): ByteRange[] {
  const freeblocks: ByteRange[] = [];
  for (let at = first, min = contentStart; at !== 0; ) {
    if (at < min || at + FREEBLOCK_HEADER_BYTES > page.length) return [];
    const end = at + page.readUInt16BE(at + 2);
    if (end < at + FREEBLOCK_HEADER_BYTES || end > page.length) return [];
    freeblocks.push({ start: at + FREEBLOCK_HEADER_BYTES, end });
    min = end;
    at = page.readUInt16BE(at);
  }
  return freeblocks;
}
