/**
 * Assigns processors. In production attackers have machines of their own; on one machine the server gets one half of the processors
 * and all others get the other half, where honest clients have priority, so that the server is measured and not a lack of CPU time
 * for its clients.
 */
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

const processors = availableParallelism();
const half = Math.max(1, Math.floor(processors / 2));
const range = (from: number, to: number) => (from === to ? `${from}` : `${from}-${to}`);
const pinned = (from: number, to: number) => ["taskset", "-c", range(from, to)];
const elsewhere = pinned(Math.min(half, processors - 1), processors - 1);
/**
 * Before whatever else runs here, so that a figure is the server's and not its neighbours'. A kernel that groups processes
 * by session counts niceness only within a session: each is then one of its own, and the session is what goes first. Not by
 * a real-time class: there, whichever thread of the server has the processor keeps it for a tenth of a second, be it a
 * compiler's or a password's, and all others wait, which is then measured.
 */
const before = (niceness: number) => {
  const first = `echo ${niceness} > /proc/self/autogroup 2> /dev/null; exec nice -n ${niceness} "$@"`;
  return ["setsid", "sh", "-c", first, "sh"];
};

/** In front of a command. */
export const SERVER = [...pinned(0, half - 1), ...before(-20)];
export const HONEST = [...elsewhere, ...before(-20)];
/**
 * A client that only measures how long an answer takes, a hundred times a second: at once when it comes, whatever else computes there.
 * Its neighbours' share of the processor would be counted as the server's time.
 */
export const ASKER = ["chrt", "--rr", "1", ...elsewhere];
/** Lower priority than the honest clients, but higher than other programs of the machine. */
export const ATTACKER = [...elsewhere, ...before(-10)];
export const SHARE = `${half} of ${processors} processors for the server`;

type Spent = { cpu: number; waited: number };

/** Since it was called: seconds of a processor per second, for the main thread and for all others, and waiting for one. */
export function watchThreads(pid: number): () => Record<"main" | "others" | "mainWaited", number> {
  const startedAt = performance.now();
  const before = threadsOf(pid);
  return () => {
    const nanos = (performance.now() - startedAt) * 1e6;
    const share = (pick: (id: string) => boolean, what: keyof Spent) =>
      [...threadsOf(pid)]
        .filter(([id]) => pick(id))
        .reduce((sum, [id, spent]) => sum + spent[what] - (before.get(id)?.[what] ?? 0), 0) / nanos;
    const isMain = (id: string) => id === String(pid);
    return {
      main: share(isMain, "cpu"),
      others: share((id) => !isMain(id), "cpu"),
      mainWaited: share(isMain, "waited"),
    };
  };
}

function threadsOf(pid: number): Map<string, Spent> {
  const found = new Map<string, Spent>();
  for (const id of readdirSync(`/proc/${pid}/task`)) {
    try {
      const [cpu = 0, waited = 0] = readFileSync(`/proc/${pid}/task/${id}/schedstat`, "utf8").split(" ").map(Number);
      found.set(id, { cpu, waited });
    } catch {
      // The process ended between being listed and being read.
    }
  }
  return found;
}
