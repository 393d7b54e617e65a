/** Limits the CPU time of programs: to a share of one processor, as on a small machine, or not at all. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PERIOD_MICROS = 250_000;
/** Short, so that a thread that has used up its share waits for a few milliseconds only. */
const THREAD_PERIOD_MICROS = 10_000;
const FIRST_VERSION = "/sys/fs/cgroup/cpu";
const SECOND_VERSION = "/sys/fs/cgroup";

/** The smallest share that the system can enforce. */
const LEAST_PERCENT = 1;
const LEAST_QUOTA_MICROS = 1_000;

const MEASURED_MS = 5_000;
const LOOKED_AT_MS = 2_000;
const FELT_WITHIN_MS = 20_000;
const OVERLOADED_SHARE = 0.5;
const NEXT_STEP = 0.75;
const NEARLY_ALWAYS = 0.95;
const OVER = -1;
const TICKS_PER_SECOND = 100;

/** The CPU time that these programs use, in percent of one processor. */
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

export type Quota = {
  set(percent: number): void;
  release(): void;
};

/** From now on these programs together get at most this percentage of one processor. */
function holdBack(pids: readonly number[], percent: number): Quota {
  const group = openGroup();
  const set = (percent: number) => group.limit(percent, PERIOD_MICROS);
  if (group.isFirst) {
    // Browsers give their sound a place before all others; where that is counted by group, a group needs some of it.
    if (group.has("cpu.rt_runtime_us")) group.write("cpu.rt_runtime_us", "20000");
  }
  set(percent);
  group.take(pids);
  return { set, release: group.close };
}

/** Each of these threads gets at most this percentage of one processor. */
export function limitThreads(threads: readonly string[], percent: number): { release(): void } {
  const groups = threads.map((thread) => {
    const group = openGroup("threads");
    group.limit(percent, THREAD_PERIOD_MICROS);
    group.take([Number(thread)]);
    return group;
  });
  return {
    release() {
      for (const group of groups) group.close();
    },
  };
}

/** Whenever these programs want a processor, they have it: what is slow beside others is not slow because of those. */
export function putFirst(pids: readonly number[]): { release(): void } {
  const group = openGroup();
  if (group.isFirst) group.write("cpu.shares", "262144");
  else group.write("cpu.weight", "10000");
  group.take(pids);
  return { release: group.close };
}

/** Processes or threads that the system counts together, in a group of either version of cgroups. */
function openGroup(of: "processes" | "threads" = "processes") {
  const isFirst = existsSync(join(FIRST_VERSION, "cpu.cfs_quota_us"));
  const root = isFirst ? FIRST_VERSION : SECOND_VERSION;
  const folder = join(root, `stoa-${crypto.randomUUID().slice(0, 8)}`);
  if (!isFirst) writeFileSync(join(root, "cgroup.subtree_control"), "+cpu");
  mkdirSync(folder);
  if (!isFirst && of === "threads") writeFileSync(join(folder, "cgroup.type"), "threaded");
  const members = of === "processes" ? "cgroup.procs" : isFirst ? "tasks" : "cgroup.threads";
  const write = (name: string, value: string) => writeFileSync(join(folder, name), value);
  return {
    isFirst,
    limit(percent: number, periodMicros: number) {
      const quota = Math.max(LEAST_QUOTA_MICROS, Math.round((periodMicros * percent) / 100));
      if (!isFirst) return write("cpu.max", `${quota} ${periodMicros}`);
      write("cpu.cfs_period_us", String(periodMicros));
      write("cpu.cfs_quota_us", String(quota));
    },
    has: (name: string) => existsSync(join(folder, name)),
    write,
    take: (ids: readonly number[]) => move(ids, join(folder, members)),
    close() {
      // Those that were started meanwhile are included.
      const inside = readFileSync(join(folder, members), "utf8");
      move(inside.split("\n").filter(Boolean).map(Number), join(root, members));
      rmdirSync(folder);
    },
  };
}

/**
 * Gives these programs less CPU time than they need, until it is ended. Calls need more time while they begin than later, so no
 * fixed share is certain to be too little: the share is reduced until the busiest media worker is nearly always busy.
 */
export async function overload(pids: readonly number[]): Promise<() => Promise<void>> {
  let percent = (await usedPercent(pids)) * OVERLOADED_SHARE;
  const quota = holdBack(pids, percent);
  const over = Promise.withResolvers<number>();
  const tightening = (async () => {
    for (;;) {
      const busy = await Promise.race([busiestWorker(pids), over.promise]);
      if (busy === OVER) return;
      if (busy >= NEARLY_ALWAYS || percent <= LEAST_PERCENT) continue;
      percent *= NEXT_STEP;
      quota.set(percent);
    }
  })();
  return async () => {
    over.resolve(OVER);
    await tightening;
    quota.release();
  };
}

/**
 * Gives these programs so little CPU time that their encoders report a limitation, until it is ended. The right share depends on
 * the machine: with too much they keep up, and with too little hardly any frame is encoded. Shares are tried until `isFelt`.
 */
export function slowDown(
  pids: readonly number[],
  percents: readonly [number, ...number[]],
  isFelt: () => Promise<boolean>,
): () => Promise<void> {
  const quota = holdBack(pids, percents[0]);
  const over = Promise.withResolvers<typeof OVER>();
  const trying = (async () => {
    for (let n = 1; ; ) {
      const felt = await Promise.race([Bun.sleep(FELT_WITHIN_MS).then(isFelt), over.promise]);
      if (felt === OVER) return;
      if (!felt) quota.set(percents[n++ % percents.length] ?? percents[0]);
    }
  })();
  return async () => {
    over.resolve(OVER);
    await trying;
    quota.release();
  };
}

/** The share of the next seconds in which the forwarding thread ran or waited for a processor. */
async function busiestWorker(pids: readonly number[]): Promise<number> {
  const before = workerNanos(pids);
  const startedMs = performance.now();
  await Bun.sleep(LOOKED_AT_MS);
  const elapsedNanos = (performance.now() - startedMs) * 1e6;
  const shares = [...workerNanos(pids)].map(([thread, nanos]) => (nanos - (before.get(thread) ?? 0)) / elapsedNanos);
  return Math.max(0, ...shares);
}

function workerNanos(pids: readonly number[]): Map<string, number> {
  const nanos = new Map<string, number>();
  for (const pid of pids) {
    for (const thread of workerThreads(pid)) {
      const [ran, waited] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ");
      nanos.set(thread, Number(ran) + Number(waited));
    }
  }
  return nanos;
}

/** The threads that forward media. */
export function workerThreads(pid: number): string[] {
  const folder = `/proc/${pid}/task`;
  return readdirSync(folder).filter((thread) => readFileSync(`${folder}/${thread}/comm`, "utf8").trim() === "Worker");
}

function move(ids: readonly number[], members: string): void {
  for (const id of ids) {
    try {
      writeFileSync(members, String(id));
    } catch (error) {
      // One that has ended meanwhile needs no place.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}
