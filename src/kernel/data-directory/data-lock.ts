import { Database } from "bun:sqlite";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { giveToOwnerOf } from "../durable-file.ts";

export type ServerNote = {
  role: "server";
  pid: number;
  version: string;
  url: string;
  mediaPorts: number[];
  announce: string[];
  /** Credentials of connectivity checks that the media ports answer. */
  probe: { ufrag: string; pwd: string };
  /** Whether `stoa upgrade` can replace the server while its calls continue. Absent from earlier versions, which SIGUSR2 ends. */
  upgrades?: boolean;
  /** Whether the server leads a cluster; absent from earlier versions. */
  isMember?: boolean;
  /** The secret of the route that shows how the server received a request. */
  doctorSecret: string;
};

/** A standby of a cluster has the data and the port of a server, but no media. */
export type StandbyNote = Pick<ServerNote, "pid" | "version" | "url"> & { role: "standby" };

type Note = ServerNote | StandbyNote;

export class DataInUse extends Error {
  override readonly name = "DataInUse";
  constructor(dataDir: string, note: Note | null) {
    super(`A server is running on ${dataDir}${note ? ` (process ${note.pid}, ${note.url})` : ""}. Stop it first.`);
  }
}

export type DataLock = {
  /** Written for processes with access to the directory, until the lock is released. */
  note(note: Note): void;
  release(): void;
};

/**
 * Allows one server per data directory: two servers would cache data that the other changes. The lock is a file lock of
 * an empty SQLite database, so it is released when the process ends for any reason.
 */
export function lockData(dataDir: string): DataLock {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, "serve.lock");
  const client = new Database(path, { create: true });
  try {
    giveToOwnerOf(dataDir)(path);
    client.run("PRAGMA locking_mode = EXCLUSIVE");
    client.run("BEGIN EXCLUSIVE");
  } catch (error) {
    client.close();
    if ((error as { code?: string }).code !== "SQLITE_BUSY") throw error;
    throw new DataInUse(dataDir, readNote(dataDir));
  }
  return {
    note(note) {
      writeFileSync(`${notePath(dataDir)}.new`, JSON.stringify(note), { mode: 0o600 });
      renameSync(`${notePath(dataDir)}.new`, notePath(dataDir));
    },
    release() {
      rmSync(notePath(dataDir), { force: true });
      client.run("ROLLBACK");
      client.close();
    },
  };
}

export function runningServer(dataDir: string): Note | null {
  const note = readNote(dataDir);
  if (note === null) return null;
  try {
    lockData(dataDir).release();
    return null;
  } catch (error) {
    if (error instanceof DataInUse) return note;
    throw error;
  }
}

function readNote(dataDir: string): Note | null {
  return existsSync(notePath(dataDir)) ? (JSON.parse(readFileSync(notePath(dataDir), "utf8")) as Note) : null;
}

function notePath(dataDir: string): string {
  return join(dataDir, "serve.json");
}

export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
