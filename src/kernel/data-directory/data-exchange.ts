/**
 * Puts the contents of a restored backup into the place of the data. Several renames cannot be one step, so a note says
 * how far it has come; whoever opens the data next goes on from there, also after a power failure.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ATTACHMENTS, DATABASE, SECRETS } from "./data-contents.ts";
import { syncFolder, writeDurably } from "./durable-file.ts";
import { giveToOwnerOf } from "./file-owner.ts";

const NOTE = "restore.json";
/** The write-ahead log belongs to the old database and must never meet the new one. */
const DATA = [`${DATABASE}-wal`, `${DATABASE}-shm`, DATABASE, ...SECRETS, ATTACHMENTS];

/** A restore that cannot be finished; the message is for the operator. */
export class ExchangeBroken extends Error {
  override readonly name = "ExchangeBroken";
}

type Note = { step: "set aside" | "put in place"; from: string; aside: string };

/** `from` and `aside` are folders of the data directory; the first holds the new data, the second takes the old. */
export function beginExchange(dataDir: string, from: string, aside: string): void {
  writeNote(dataDir, { step: "set aside", from, aside });
  finishExchange(dataDir);
}

/** Without effect unless an exchange was begun. */
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
 * Whoever cleared away the folder in between would be left with an empty server, which lets the next visitor register as
 * its operator. It says what is where, and starts no sooner than somebody has decided.
 */
function requireRestored(dataDir: string, { step }: Note, from: string, aside: string): void {
  if (existsSync(join(from, DATABASE))) return;
  if (step === "put in place" && existsSync(join(dataDir, DATABASE))) return;
  const note = join(dataDir, NOTE);
  const cure =
    step === "set aside"
      ? `The data of before is still in place: remove ${note} to go on with it, or restore again after that.`
      : `The data of before is in ${aside}: move it back to ${dataDir} and remove ${note}, or restore again after that.`;
  throw new ExchangeBroken(`A restore was interrupted, and its folder ${from} is gone. ${cure}`);
}

/** A file that cannot be moved, such as a mount point, leaves everything as it was. */
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
