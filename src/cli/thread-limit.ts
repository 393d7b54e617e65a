/** Bun aborts with a link to its bug reports where the system allows too few threads, so the server checks before it starts any. */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { CommandFailure } from "./failure.ts";

/**
 * The threads to keep free besides the media workers and one for each core: for TLS, HTTP requests, name lookups, and the threads
 * that the garbage collector and the compiler end while idle and start again. Bun aborts at any time if it cannot start one.
 */
const SPARE_THREADS = 12;

/** Fails when the control group of this process, which containers and systemd limit, has too few threads left. `root` contains proc and sys. */
export function requireThreads(workers: number, root = "/", cores = availableParallelism()): void {
  const limits = pidLimits(root);
  if (limits === null) return;
  const needed = limits.current + SPARE_THREADS + workers + cores;
  if (limits.max >= needed) return;
  throw new CommandFailure(
    `only ${limits.max} threads are allowed here, of which ${limits.current} run. Allow ${needed}: TasksMax of the unit, --pids-limit of the container, or pids.max of the cgroup.`,
  );
}

/** The thread limit of the control group and how many run in it; null if it has no limit. */
function pidLimits(root: string): { max: number; current: number } | null {
  try {
    const groups = readFileSync(join(root, "proc/self/cgroup"), "utf8");
    const [, hierarchy = "", path = "/"] = /^\d+:(pids|):(.*)$/m.exec(groups) ?? [];
    const read = (file: string) => Number(readFileSync(join(root, "sys/fs/cgroup", hierarchy, path, file), "utf8"));
    const [max, current] = [read("pids.max"), read("pids.current")];
    // Without a limit, the control group's file contains "max".
    return Number.isNaN(max) ? null : { max, current };
  } catch {
    return null;
  }
}
