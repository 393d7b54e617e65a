import { createInterface } from "node:readline";

/**
 * Calls `end` when stdin ends, which happens even if the parent process is killed. A line `command PID` specifies a
 * process that is then killed with all its descendants; a line `done` means that the process has ended by itself.
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

/** A stopped process starts no others, so the tree is complete when no new process is found. */
function killTree(root: number): void {
  const stopped = new Set<number>();
  for (let found = [root]; found.length > 0; found = descendants(root).filter((pid) => !stopped.has(pid))) {
    for (const pid of found) {
      signal(pid, "SIGSTOP");
      stopped.add(pid);
    }
  }
  for (const pid of stopped) signal(pid, "SIGKILL");
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process has ended in the meantime.
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
