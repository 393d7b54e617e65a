/**
 * The layout of SQLite's write-ahead log: a header, then frames, each with a header and a page. The numbers are those of "WAL file
 * format" in SQLite's documentation.
 */

/** The last bit says in which byte order the checksums are computed. */
const MAGIC = 0x377f0682;
const PAGE_SIZE_IN_HEADER = 8;
const SALTS_IN_HEADER = 16;
const SALTS_IN_FRAME = 8;
const SALTS_BYTES = 8;

export const WAL_HEADER_BYTES = 32;
export const FRAME_HEADER_BYTES = 24;

export const isWalHeader = (header: Buffer): boolean =>
  header.length >= WAL_HEADER_BYTES && header.readUInt32BE() >>> 1 === MAGIC >>> 1;

export const frameBytesOf = (header: Buffer): number => FRAME_HEADER_BYTES + header.readUInt32BE(PAGE_SIZE_IN_HEADER);

/** Frames from before the log was restarted have other salts than its header. */
export const hasSaltsOf = (header: Buffer, frame: Buffer): boolean =>
  frame
    .subarray(SALTS_IN_FRAME, SALTS_IN_FRAME + SALTS_BYTES)
    .equals(header.subarray(SALTS_IN_HEADER, SALTS_IN_HEADER + SALTS_BYTES));
