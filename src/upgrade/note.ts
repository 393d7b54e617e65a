import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../kernel/durable-file.ts";

/**
 * The file by which the command and the running server talk: the command writes the request, and waits until the server replaces it
 * with the outcome.
 */
export type UpgradeNote =
  | { state: "requested" /** Null for the program at the path of the running one. */; binary: string | null }
  /** `pid` is that of the process that is replaced. */
  | { state: "running"; pid: number }
  | { state: "done"; pid: number; version: string }
  | { state: "failed"; reason: string };

const notePath = (dataDir: string) => join(dataDir, "upgrade.json");

export const writeUpgradeNote = (dataDir: string, note: UpgradeNote): void =>
  writeDurably(notePath(dataDir), JSON.stringify(note));

/** Null if there is no note. */
export function readUpgradeNote(dataDir: string): UpgradeNote | null {
  try {
    return JSON.parse(readFileSync(notePath(dataDir), "utf8")) as UpgradeNote;
  } catch {
    return null;
  }
}

export const removeUpgradeNote = (dataDir: string): void => rmSync(notePath(dataDir), { force: true });
