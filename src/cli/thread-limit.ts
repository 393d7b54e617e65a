/** Bun aborts, with a link to its own site, where the system allows too few threads: the command says so before. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CommandFailure } from "./failure.ts";

/** What a server starts beside its media workers, on top of the threads that run already. */
const OWN_THREADS = 3;

/** Of the process' control group, which containers and systemd limit. `root` holds /proc and /sys. */
export function requireThreads(workers: number, root = "/"): void {
  const limits = pidLimits(root);
  if (limits === null) return;
  const free = limits.max - limits.current;
  if (free >= OWN_THREADS + workers) return;
  throw new CommandFailure(
    `only ${limits.max} threads are allowed here, of which ${limits.current} run. Allow 20, and one for each media worker: TasksMax of the unit, --pids-limit of the container, or pids.max of the cgroup.`,
  );
}

/** Null without a limit. */
function pidLimits(root: string): { max: number; current: number } | null {
  try {
    const groups = readFileSync(join(root, "proc/self/cgroup"), "utf8");
    const [, hierarchy = "", path = "/"] = /^\d+:(pids|):(.*)$/m.exec(groups) ?? [];
    const read = (file: string) => Number(readFileSync(join(root, "sys/fs/cgroup", hierarchy, path, file), "utf8"));
    const [max, current] = [read("pids.max"), read("pids.current")];
    // The file of a group without a limit says "max".
    return Number.isNaN(max) ? null : { max, current };
  } catch {
    return null;
  }
}
