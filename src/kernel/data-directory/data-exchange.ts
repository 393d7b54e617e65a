/**
 * Replaces the data with the contents of a restored backup. Several renames are not atomic, so a note records the
 * progress; the next process that opens the data continues from there, even after a power failure.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { giveToOwnerOf, syncFolder, writeDurably } from "../durable-file.ts";
import { ATTACHMENTS, DATABASE, SECRETS } from "./data-contents.ts";

const NOTE = "restore.json";
/** The write-ahead log belongs to the old database and must never be used with the new one. */
const DATA = [`${DATABASE}-wal`, `${DATABASE}-shm`, DATABASE, ...SECRETS, ATTACHMENTS];

/** A restore that cannot be finished; the message is for the operator. */
export class ExchangeBroken extends Error {
  override readonly name = "ExchangeBroken";
}

type Note = { step: "set aside" | "put in place"; from: string; aside: string };

/**
 * `from` and `aside` are folders in the data directory: `from` has the new data, and the old data is moved to `aside`.
 */
export function beginExchange(dataDir: string, from: string, aside: string): void {
  writeNote(dataDir, { step: "set aside", from, aside });
  finishExchange(dataDir);
}

/** Does nothing unless an exchange was begun. */
export function finishExchange(dataDir: string): void {
  let note = readNote(dataDir);
  if (note === null) return;
  const [from, aside] = [join(dataDir, note.from), join(dataDir, note.aside)];
  requireRestored(dataDir, note, from, aside);
  if (note.step === "set aside") {
    setAside(dataDir, aside);
    note = { ...note, step: "put in place" };
    writeNote(dataDir, note);
  }
  moveAll(from, dataDir);
  rmSync(join(dataDir, NOTE));
  rmSync(from, { recursive: true, force: true });
  syncFolder(dataDir);
}

/**
 * Without the folder of the restore the server would start empty, and the next visitor could register as its operator.
 * The server therefore does not start and tells the operator where the data is.
 */
function requireRestored(dataDir: string, { step }: Note, from: string, aside: string): void {
  if (existsSync(join(from, DATABASE))) return;
  if (step === "put in place" && existsSync(join(dataDir, DATABASE))) return;
  const note = join(dataDir, NOTE);
  const advice =
    step === "set aside"
      ? `The previous data is still in place: remove ${note} to continue with it, or restore again after that.`
      : `The previous data is in ${aside}: move it back to ${dataDir} and remove ${note}, or restore again after that.`;
  throw new ExchangeBroken(`A restore was interrupted, and its folder ${from} is gone. ${advice}`);
}

/** If a file cannot be moved, for example a mount point, all files are moved back. */
function setAside(dataDir: string, aside: string): void {
  mkdirSync(aside, { recursive: true, mode: 0o700 });
  giveToOwnerOf(dataDir)(aside);
  try {
    moveAll(dataDir, aside);
  } catch (error) {
    moveAll(aside, dataDir);
    rmSync(join(dataDir, NOTE));
    throw error;
  }
}

function moveAll(from: string, to: string): void {
  for (const name of DATA) if (existsSync(join(from, name))) renameSync(join(from, name), join(to, name));
  syncFolder(to);
}

function readNote(dataDir: string): Note | null {
  const path = join(dataDir, NOTE);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Note) : null;
}

function writeNote(dataDir: string, note: Note): void {
  writeDurably(join(dataDir, NOTE), JSON.stringify(note));
}
