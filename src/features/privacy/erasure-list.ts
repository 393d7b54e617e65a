import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "../../protocol/enums.ts";

const FILE = "erasures.jsonl";

/** One erasure, without the name: whoever knows a name and the key can tell whether it is meant. */
export type ListedErasure = {
  id: string;
  at: number;
  projectId: string;
  environment: Environment;
  digest: string;
  /** Which master secret the digest was made with. */
  key: string;
};

/**
 * Every erasure, beside the database and in no backup: whoever restores an older backup finds here what has to be erased
 * again. A line is on disk before the erasure is answered.
 */
export function listErasure(dataDir: string, erasure: ListedErasure): void {
  const path = join(dataDir, FILE);
  appendFileSync(path, `${JSON.stringify(erasure)}\n`, { mode: 0o600 });
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** A line that a crash cut off was never answered. */
export function listedErasures(dataDir: string): ListedErasure[] {
  const path = join(dataDir, FILE);
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return line === "" ? [] : [JSON.parse(line) as ListedErasure];
      } catch {
        return [];
      }
    });
}
