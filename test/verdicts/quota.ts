/** A share of one processor for some programs, as a small or crowded machine gives them. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PERIOD_MICROS = 100_000;
const FIRST_VERSION = "/sys/fs/cgroup/cpu";
const SECOND_VERSION = "/sys/fs/cgroup";

const MEASURED_MS = 5_000;
const TICKS_PER_SECOND = 100;

/** What these programs use of one processor, in percent. */
export async function usedPercent(pids: readonly number[]): Promise<number> {
  const before = ticksOf(pids);
  await Bun.sleep(MEASURED_MS);
  return ((ticksOf(pids) - before) / TICKS_PER_SECOND / (MEASURED_MS / 1_000)) * 100;
}

function ticksOf(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) {
    // The name in front may have spaces; of what follows, the 12th and 13th are the program's time and the kernel's for it.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks;
}

/** Everything that these programs do from now on has to fit into so many percent of one processor; the answer lets them go. */
export function holdBack(pids: readonly number[], percent: number): () => void {
  const isFirst = existsSync(join(FIRST_VERSION, "cpu.cfs_quota_us"));
  const root = isFirst ? FIRST_VERSION : SECOND_VERSION;
  const group = join(root, `stoa-${crypto.randomUUID().slice(0, 8)}`);
  const quota = Math.round((PERIOD_MICROS * percent) / 100);
  if (!isFirst) writeFileSync(join(root, "cgroup.subtree_control"), "+cpu");
  mkdirSync(group);
  if (isFirst) {
    writeFileSync(join(group, "cpu.cfs_period_us"), String(PERIOD_MICROS));
    writeFileSync(join(group, "cpu.cfs_quota_us"), String(quota));
    // Browsers give their sound a place before all others; where that is counted by group, a group needs some of it.
    const soundFile = join(group, "cpu.rt_runtime_us");
    if (existsSync(soundFile)) writeFileSync(soundFile, "20000");
  } else writeFileSync(join(group, "cpu.max"), `${quota} ${PERIOD_MICROS}`);
  move(pids, group);
  return () => {
    // What was started meanwhile is in it too.
    const inside = readFileSync(join(group, "cgroup.procs"), "utf8");
    move(inside.split("\n").filter(Boolean).map(Number), root);
    rmdirSync(group);
  };
}

function move(pids: readonly number[], group: string): void {
  for (const pid of pids) {
    try {
      writeFileSync(join(group, "cgroup.procs"), String(pid));
    } catch (error) {
      // One that has ended meanwhile needs no place.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}
