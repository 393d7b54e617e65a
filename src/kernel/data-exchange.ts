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
