import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, link, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { CHECKSUMS } from "../data-directory/data-contents.ts";
import { removeGradually } from "./remove-gradually.ts";
import { BLOCK_BYTES, paddingOf, writeTarHeader } from "./tar.ts";

const CHUNK_BYTES = 1024 * 1024;
/** The file is flushed regularly: one large flush at the end would delay every commit of the server. */
const FLUSH_BYTES = 2 * 1024 * 1024;

export type WrittenArchive = { bytes: number; sha256: string };

/** Writes an archive to a partial file and renames it only when it is complete and on disk. */
export class ArchiveWriter {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #now: number;
  readonly #checksums: string[] = [];
  readonly #hash = createHash("sha256");
  readonly #chunk = Buffer.alloc(CHUNK_BYTES);
  #bytes = 0;
  #unflushed = 0;

  static async create(path: string, now: number): Promise<ArchiveWriter> {
    return new ArchiveWriter(path, await open(partialOf(path), "w", 0o600), now);
  }

  private constructor(path: string, file: FileHandle, now: number) {
    this.#path = path;
    this.#file = file;
    this.#now = now;
  }

  async addText(name: string, text: string): Promise<void> {
    const content = Buffer.from(text);
    await this.#append(writeTarHeader({ name, size: content.length }, this.#now));
    await this.#append(content);
    await this.#close(name, createHash("sha256").update(content).digest("hex"), content.length);
  }

  async addFile(name: string, path: string): Promise<boolean> {
    const source = await open(path, constants.O_RDONLY).catch(absent);
    if (source === null) return false;
    try {
      const { size } = await source.stat();
      await this.#append(writeTarHeader({ name, size }, this.#now));
      const hash = createHash("sha256");
      for (let left = size; left > 0; ) {
        const { bytesRead } = await source.read(this.#chunk, 0, Math.min(left, CHUNK_BYTES));
        if (bytesRead === 0) throw new Error(`${path} became shorter while it was read`);
        const piece = this.#chunk.subarray(0, bytesRead);
        hash.update(piece);
        await this.#append(piece);
        left -= bytesRead;
      }
      await this.#close(name, hash.digest("hex"), size);
      return true;
    } finally {
      await source.close();
    }
  }

  async finish(): Promise<WrittenArchive> {
    await this.addText(CHECKSUMS, this.#checksums.join(""));
    await this.#append(Buffer.alloc(2 * BLOCK_BYTES));
    await this.#file.sync();
    await this.#file.close();
    await replace(partialOf(this.#path), this.#path);
    const folder = await open(dirname(this.#path), "r");
    await folder.sync().finally(() => folder.close());
    return { bytes: this.#bytes, sha256: this.#hash.digest("hex") };
  }

  async abandon(): Promise<void> {
    await this.#file.close();
    await removeGradually(partialOf(this.#path));
  }

  async #close(name: string, sha256: string, size: number): Promise<void> {
    await this.#append(Buffer.alloc(paddingOf(size)));
    this.#checksums.push(`${sha256}  ${name}\n`);
  }

  async #append(data: Buffer): Promise<void> {
    this.#hash.update(data);
    this.#bytes += data.length;
    for (let at = 0; at < data.length; ) at += (await this.#file.write(data, at, data.length - at)).bytesWritten;
    this.#unflushed += data.length;
    if (this.#unflushed < FLUSH_BYTES) return;
    this.#unflushed = 0;
    await this.#file.datasync();
  }
}

export function partialOf(path: string): string {
  return `${path}.partial`;
}

/** Replaces a file in one step; the replaced file is kept under another name and removed gradually. */
async function replace(from: string, to: string): Promise<void> {
  const replaced = `${to}.replaced`;
  await removeGradually(replaced);
  // The file may not exist, or the file system may not support links.
  await link(to, replaced).catch(() => {});
  await rename(from, to);
  await removeGradually(replaced);
}

function absent(error: NodeJS.ErrnoException): null {
  if (error.code === "ENOENT") return null;
  throw error;
}
