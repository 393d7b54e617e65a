import { createHash } from "node:crypto";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BLOCK_BYTES, paddingOf, readFully, readTarHeader, type TarEntry } from "../../kernel/archive/tar.ts";
import {
  BackupRefused,
  CHECKSUMS,
  DATABASE,
  DESCRIPTION,
  type Description,
  FORMAT,
  isContent,
} from "../../kernel/data-directory/data-contents.ts";

const CHUNK_BYTES = 1024 * 1024;
/** Entries that are read as text are small; a larger entry is an attempt to fill the memory. */
const MAX_TEXT_BYTES = 256 * 1024 * 1024;

/** Unpacks a backup into an empty folder; throws unless all checksums match. */
export async function unpackBackup(file: string, folder: string): Promise<Description> {
  const source = await open(file, "r").catch((error: NodeJS.ErrnoException) => {
    throw new BackupRefused(error.code === "ENOENT" ? `there is no file ${file}` : error.message);
  });
  try {
    return await new Unpacking(file, source, folder).run();
  } finally {
    await source.close();
  }
}

class Unpacking {
  readonly #sums = new Map<string, string>();
  readonly #texts = new Map<string, string>();
  readonly #header = Buffer.alloc(BLOCK_BYTES);
  readonly #chunk = Buffer.alloc(CHUNK_BYTES);

  constructor(
    private readonly file: string,
    private readonly source: FileHandle,
    private readonly folder: string,
  ) {}

  async run(): Promise<Description> {
    for (;;) {
      if (!(await readFully(this.source, this.#header))) throw this.#refused("it ends too early");
      const entry = readTarHeader(this.#header);
      if (entry === null) break;
      if (entry === undefined || !isContent(entry.name) || this.#sums.has(entry.name)) {
        throw this.#refused(this.#sums.size === 0 ? "it is not a backup of Stoa" : "it is damaged");
      }
      await this.#unpack(entry);
      if (entry.name === DESCRIPTION) this.#checkFormat();
    }
    this.#compareChecksums();
    return this.#description();
  }

  async #unpack({ name, size }: TarEntry): Promise<void> {
    const isText = name === DESCRIPTION || name === CHECKSUMS;
    if (isText && size > MAX_TEXT_BYTES) throw this.#refused("it is damaged");
    const path = join(this.folder, name);
    if (!isText) await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const target = isText ? null : await open(path, "wx", 0o600);
    const hash = createHash("sha256");
    const chunks: Buffer[] = [];
    try {
      for (let left = size; left > 0; left -= CHUNK_BYTES) {
        const chunk = this.#chunk.subarray(0, Math.min(left, CHUNK_BYTES));
        if (!(await readFully(this.source, chunk))) throw this.#refused("it ends too early");
        hash.update(chunk);
        if (target) await target.writeFile(chunk);
        else chunks.push(Buffer.from(chunk));
      }
      await target?.sync();
    } finally {
      await target?.close();
    }
    await readFully(this.source, this.#chunk.subarray(0, paddingOf(size)));
    this.#sums.set(name, hash.digest("hex"));
    if (isText) this.#texts.set(name, Buffer.concat(chunks).toString());
  }

  #compareChecksums(): void {
    const listed = this.#texts.get(CHECKSUMS);
    if (listed === undefined) throw this.#refused("it ends too early");
    this.#sums.delete(CHECKSUMS);
    const expected = new Map(
      listed
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => [line.slice(66), line.slice(0, 64)]),
    );
    for (const name of new Set([...expected.keys(), ...this.#sums.keys()])) {
      if (expected.get(name) !== this.#sums.get(name)) throw this.#refused(`it is damaged: ${name} has changed`);
    }
    for (const name of [DESCRIPTION, DATABASE]) {
      if (!this.#sums.has(name)) throw this.#refused(`it holds no ${name}`);
    }
  }

  #checkFormat(): void {
    const { format, version } = this.#description();
    if (format > FORMAT) throw this.#refused(`it was made by Stoa ${version}, and this version cannot read it`);
  }

  #description(): Description {
    try {
      return JSON.parse(this.#texts.get(DESCRIPTION) ?? "") as Description;
    } catch {
      throw this.#refused("it is damaged");
    }
  }

  #refused(reason: string): BackupRefused {
    return new BackupRefused(`${this.file} cannot be used: ${reason}.`);
  }
}
