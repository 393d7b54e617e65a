/** A server that lives as long as the pipe from whoever started it: a parent that is killed says no goodbye. */
import { createInterface } from "node:readline";

/**
 * Calls `end` when stdin ends. A line `command PID` names a process that has no other parent left then: it is ended with
 * everything it has started, until `done` says that it has ended by itself.
 */
export function onStdinEnd(end: () => void): void {
  let command: number | null = null;
  const lines = createInterface({ input: process.stdin });
  lines.on("line", (line) => {
    const [word, pid] = line.split(" ");
    if (word === "command") command = Number(pid);
    if (word === "done") command = null;
  });
  lines.on("close", () => {
    if (command !== null) killTree(command);
    end();
  });
}

/** Children first, so that none of them is left without somebody to look for it under. */
function killTree(pid: number): void {
  for (const one of [...descendants(pid), pid]) {
    try {
      process.kill(one, "SIGKILL");
    } catch {
      // Ended by itself in the meantime.
    }
  }
}

function descendants(root: number): number[] {
  const { stdout, success } = Bun.spawnSync(["ps", "-A", "-o", "pid=,ppid="]);
  if (!success) return [];
  const pairs = stdout
    .toString()
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number));
  const below = (parent: number): number[] =>
    pairs.filter(([, ppid]) => ppid === parent).flatMap(([pid = 0]) => [...below(pid), pid]);
  return below(root);
}
