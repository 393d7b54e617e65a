import { readdirSync, readFileSync } from "node:fs";

/** The processors that this process may use, by number. */
function allowedCores(): number[] {
  const list = /^Cpus_allowed_list:\s+(.*)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "";
  return list.split(",").flatMap((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });
}

function confine(thread: string, cores: readonly number[]): void {
  Bun.spawnSync(["taskset", "--cpu-list", "--pid", cores.join(","), thread]);
}

/**
 * The main threads of these processes get a core to themselves, and all other threads of theirs and of the load the rest:
 * what they spend is then their own, and not that of being moved about between more threads than there are cores. The
 * answer undoes it.
 */
export function giveMainThreadsACore(pids: readonly number[]): () => void {
  const cores = allowedCores();
  const [own, others] = [cores.slice(-1), cores.slice(0, -1)];
  if (others.length === 0) throw new Error("it takes two cores");
  const threads = () => [...pids, process.pid].flatMap((pid) => readdirSync(`/proc/${pid}/task`));
  const mainThreads = new Set(pids.map(String));
  for (const thread of threads()) confine(thread, mainThreads.has(thread) ? own : others);
  return () => {
    // Also confines threads that were started meanwhile.
    for (const thread of threads()) confine(thread, cores);
  };
}
