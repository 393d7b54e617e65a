import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PREFIX = "stoa-throw-away-";

/** A folder for the data of one run, in the system's place for such. What runs that were killed have left is removed. */
export function throwAwayFolder(): string {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(PREFIX))) {
    const owner = Number(name.slice(PREFIX.length).split("-")[0]);
    if (!isAlive(owner)) rmSync(join(tmpdir(), name), { recursive: true, force: true });
  }
  return mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Somebody else's process: alive, and its folder is not ours to remove.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
