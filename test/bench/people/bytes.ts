import { closeSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";

const CHUNK_BYTES = 16 * 1024 * 1024;

/** How often one of the texts occurs in the files of a folder, including the log and free pages of a database. */
export function occurrences(folder: string, texts: readonly string[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const count = inFile(path, texts);
    if (count > 0) found[entry.name] = count;
  }
  return found;
}

/** In pieces that overlap: a file may be larger than memory. */
export function inFile(path: string, texts: readonly string[]): number {
  const longest = Math.max(...texts.map((text) => Buffer.byteLength(text)));
  const chunk = Buffer.alloc(CHUNK_BYTES);
  const file = openSync(path, "r");
  let count = 0;
  try {
    for (let at = 0; ; ) {
      const length = readSync(file, chunk, 0, CHUNK_BYTES, at);
      const bytes = chunk.subarray(0, length);
      for (const text of texts)
        for (let found = bytes.indexOf(text); found >= 0; found = bytes.indexOf(text, found + 1)) count += 1;
      if (length < CHUNK_BYTES) return count;
      at += length - longest + 1;
    }
  } finally {
    closeSync(file);
  }
}
