import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PREFIX = "stoa-throw-away-";

/** Creates a temporary folder for the data of one run, and removes folders that killed runs have left behind. */
export function createTemporaryFolder(): string {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(PREFIX))) {
    const owner = Number(name.slice(PREFIX.length).split("-")[0]);
    if (isAlive(owner)) continue;
    try {
      rmSync(join(tmpdir(), name), { recursive: true, force: true });
    } catch {
      // The folder belongs to another user of the machine, who alone can remove it.
    }
  }
  return mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of another user is alive too.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
