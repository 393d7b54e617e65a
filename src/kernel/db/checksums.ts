/**
 * Checksums of the database's pages. SQLite itself has none, and would serve a text in which the disk has changed a
 * letter. `checksums.c` is a layer below SQLite that writes and verifies them; a build or system without that layer
 * ignores them. The layer also writes the log in larger parts than SQLite does.
 */
import { Database } from "bun:sqlite";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, readSync, renameSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { assetFolder } from "../assets.ts";
import { createMemoryFile } from "../memory-file.ts";
import { FRAME_HEADER_BYTES, frameBytesOf, hasSaltsOf, WAL_HEADER_BYTES } from "./wal-format.ts";

/** The library's name in a build. */
export const CHECKSUMS_LIBRARY = "checksums.so";
const SOURCE = join(import.meta.dir, "checksums.c");
const CACHE = join(import.meta.dir, "../../../.cache/native");
const COMPILERS = ["cc", "gcc", "clang"];
const FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-s"];

const CHECKSUM_BYTES = 8;
const FCNTL_RESERVE_BYTES = 38;
const FCNTL_TRUST_PAGES = 0x53746f61;
/** In the file's header, this id says that every page has a valid checksum. */
const APPLICATION_ID = Buffer.from("Stoa").readInt32BE();
/**
 * Replaces that id once another program has written to the file. Checksums then return only on request (`stoa migrate --compact`).
 */
const SHARED_ID = Buffer.from("Stox").readInt32BE();
/** Takes the place of the checksum in all pages that this process has logged: these bytes, or zeros if the page was new. */
const UNSEALED = [Buffer.from("unsealed"), Buffer.alloc(CHECKSUM_BYTES)];

/** A connection of bun:sqlite or of node:sqlite. */
type Connection = { prepare(sql: string): { get(): unknown; finalize?(): void }; exec(sql: string): unknown };

let isLayered: boolean | null = null;

/** Every database file that this process opens from now on gets checksums, which are written and verified. */
export function addChecksumLayer(): boolean {
  isLayered ??= process.platform === "linux" && loadLayer();
  return isLayered;
}

function loadLayer(): boolean {
  const client = new Database(":memory:");
  try {
    if (Bun.isStandaloneExecutable) return loadEmbedded(client);
    client.loadExtension(compileForCheckout(), "stoa_checksums_init");
    return true;
  } catch {
    return false;
  } finally {
    client.close();
  }
}

function loadEmbedded(client: Database): boolean {
  const library = join(assetFolder("dist/native"), CHECKSUMS_LIBRARY);
  if (!existsSync(library)) return false;
  const fd = createMemoryFile("stoa-checksums");
  try {
    writeSync(fd, readFileSync(library));
    client.loadExtension(`/proc/self/fd/${fd}`, "stoa_checksums_init");
    return true;
  } finally {
    closeSync(fd);
  }
}

function compileForCheckout(): string {
  const hash = new Bun.CryptoHasher("sha256").update(readFileSync(SOURCE)).update(`${process.arch} ${FLAGS}`);
  const path = join(CACHE, `checksums-${hash.digest("hex").slice(0, 16)}.so`);
  if (!existsSync(path)) compileChecksums(path, COMPILERS.find((name) => Bun.which(name)) ?? "cc");
  return path;
}

/** Also called by `bin/build`, with a compiler for its platform. */
export function compileChecksums(outfile: string, compiler: string): void {
  mkdirSync(dirname(outfile), { recursive: true });
  // Several processes may compile at the same time: each writes its own draft, and the last rename wins.
  const draft = `${outfile}.${process.pid}.${crypto.randomUUID().slice(0, 8)}`;
  const { success, stderr } = Bun.spawnSync([compiler, ...FLAGS, SOURCE, "-o", draft], { stdin: "ignore" });
  if (!success) throw new Error(`the C compiler refused: ${stderr.toString().trim().split("\n")[0] ?? ""}`);
  renameSync(draft, outfile);
}

export const hasChecksums = (connection: Connection): boolean => applicationOf(connection) === APPLICATION_ID;
export const isShared = (connection: Connection): boolean => applicationOf(connection) === SHARED_ID;

function applicationOf(connection: Connection): number {
  const statement = connection.prepare("PRAGMA application_id");
  const { application_id: id } = statement.get() as { application_id: number };
  // Closing the connection would not checkpoint while a statement is left.
  statement.finalize?.();
  return id;
}

/** Without the layer this connection writes pages without checksums, so the file must no longer claim to have them. */
export function withdrawChecksums(connection: Connection): void {
  if (!addChecksumLayer() && hasChecksums(connection)) connection.exec("PRAGMA application_id = 0");
}

/** Reserves the space in all pages that are written from now on. */
export function reserveChecksums(client: Database): void {
  client.fileControl(FCNTL_RESERVE_BYTES, new Int32Array([CHECKSUM_BYTES, 0]));
}

/** Must be called only once every page of the file has been written with its checksum. */
export const claimChecksums = (client: Database): void => void client.run(`PRAGMA application_id = ${APPLICATION_ID}`);

/**
 * Another program that writes to the file, such as Litestream, changes pages without updating their checksums, so they are no
 * longer verified. Returns whether that has just been noticed.
 */
export function acceptForeignPages(client: Database): boolean {
  if (!addChecksumLayer() || !hasChecksums(client) || !hasForeignPages(`${client.filename}-wal`)) return false;
  client.fileControl(FCNTL_TRUST_PAGES, new Int32Array(2));
  client.run(`PRAGMA application_id = ${SHARED_ID}`);
  return true;
}

/** Whether the write-ahead log contains a page with the old checksum that another program read from the database. */
function hasForeignPages(log: string): boolean {
  let fd: number;
  try {
    fd = openSync(log, "r");
  } catch {
    // There is no log, or no free descriptor; the next commit of another process checks again.
    return false;
  }
  try {
    const header = Buffer.alloc(WAL_HEADER_BYTES);
    if (readSync(fd, header, 0, WAL_HEADER_BYTES, 0) < WAL_HEADER_BYTES) return false;
    const frameBytes = frameBytesOf(header);
    // A buffer for the end of a page and the header of the next frame.
    const found = Buffer.alloc(CHECKSUM_BYTES + FRAME_HEADER_BYTES);
    let frameHeader = Buffer.alloc(FRAME_HEADER_BYTES);
    readSync(fd, frameHeader, 0, FRAME_HEADER_BYTES, WAL_HEADER_BYTES);
    for (let end = WAL_HEADER_BYTES + frameBytes; ; end += frameBytes) {
      if (!hasSaltsOf(header, frameHeader)) return false;
      if (readSync(fd, found, 0, found.length, end - CHECKSUM_BYTES) < CHECKSUM_BYTES) return false;
      if (!UNSEALED.some((mark) => mark.equals(found.subarray(0, CHECKSUM_BYTES)))) return true;
      frameHeader = Buffer.from(found.subarray(CHECKSUM_BYTES));
    }
  } finally {
    closeSync(fd);
  }
}

/** The same algorithm as in `checksums.c`, for code that changes the file itself. */
export function pageChecksum(page: Buffer): Buffer {
  const words = new Uint32Array(page.buffer, page.byteOffset, (page.length - CHECKSUM_BYTES) / 4);
  const sums = new Uint32Array(2);
  let [s1, s2] = [0, 0];
  for (let at = 0; at < words.length; at += 2) {
    s1 = (s1 + (words[at] ?? 0) + s2) | 0;
    s2 = (s2 + (words[at + 1] ?? 0) + s1) | 0;
  }
  sums.set([s1, s2]);
  return Buffer.from(sums.buffer);
}

/** The last bytes of a page, where its checksum is. */
export const checksumIn = (page: Buffer): Buffer => page.subarray(-CHECKSUM_BYTES);
