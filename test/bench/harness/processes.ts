import { dlopen, FFIType } from "bun:ffi";
import { readdirSync, readFileSync } from "node:fs";

const SCHEDULED_TIME = 2;
const libc = dlopen("libc.so.6", { clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 } });
const time = new BigInt64Array(2);

/** Processor time a process has used, user and system, in microseconds (Linux counts in hundredths of a second). */
export function cpuMicros(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

/** The same of a process, its children and those of them that have ended. */
export function cpuMicrosOfAll(pid: number): number {
  const ended = (readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []).slice(13, 15);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean);
  const living = children.reduce((total, child) => total + cpuMicrosIfThere(Number(child)), cpuMicros(pid));
  return living + ended.reduce((total, ticks) => total + Number(ticks) * 10_000, 0);
}

/** The same of a process and everything that it has started, and that has started. */
export function cpuMicrosOfTree(pid: number): number {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`);
    const children = tasks.flatMap(
      (task) => readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").match(/\d+/g) ?? [],
    );
    return children.reduce((total, child) => total + cpuMicrosOfTree(Number(child)), cpuMicros(pid));
  } catch {
    // The process has ended meanwhile.
    return 0;
  }
}

function cpuMicrosIfThere(pid: number): number {
  try {
    return cpuMicros(pid);
  } catch {
    return 0;
  }
}

export function rssMegabytes(pid: number): number {
  return statusMegabytes(pid, "VmRSS");
}

/** Without pages of files, which the system takes back when it needs them. */
export function ownMegabytes(pid: number): number {
  return statusMegabytes(pid, "RssAnon");
}

function statusMegabytes(pid: number, field: string): number {
  const kilobytes = new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) / 1024;
}

const IDLE = { nanosPerSecond: 30e6, atMostSeconds: 30, inARow: 4 };

/** Some get ready by themselves for what is to come, a while after their start, which takes memory too. */
export async function untilIdle(pid: number): Promise<void> {
  let inARow = 0;
  for (let second = 0; second < IDLE.atMostSeconds && inARow < IDLE.inARow; second++) {
    const before = cpuNanos(pid);
    await Bun.sleep(1_000);
    inARow = cpuNanos(pid) - before < IDLE.nanosPerSecond ? inARow + 1 : 0;
  }
}

/** Processor time of a process, as exactly as the scheduler counts it, threads included that have ended meanwhile. */
export function cpuNanos(pid: number): number {
  // The clock id, in the form of clock_getcpuclockid(3).
  if (libc.symbols.clock_gettime((~pid << 3) | SCHEDULED_TIME, time) !== 0) return 0;
  return Number(time[0]) * 1e9 + Number(time[1]);
}

/** The CPU time of the process's main thread only. */
export function mainThreadNanos(pid: number): number {
  return scheduled(`/proc/${pid}/task/${pid}/schedstat`)[0] ?? 0;
}

function scheduled(file: string): number[] {
  try {
    return readFileSync(file, "utf8").split(" ").map(Number);
  } catch {
    // The thread ended between listing and reading.
    return [];
  }
}

/** Nanoseconds that each thread of a process has run, and waited while others ran, by its number. */
export function threadNanos(pid: number): Map<string, { ran: number; waited: number }> {
  const folder = `/proc/${pid}/task`;
  return new Map(
    readdirSync(folder).map((thread) => {
      const [ran = 0, waited = 0] = scheduled(`${folder}/${thread}/schedstat`);
      return [thread, { ran, waited }];
    }),
  );
}

const STOP_TIMEOUT_MS = 3_000;

/** Resolves when a process has ended that was told to; one that cannot is made to. */
export async function ended(child: Bun.Subprocess): Promise<void> {
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
  await child.exited;
  clearTimeout(timer);
}
