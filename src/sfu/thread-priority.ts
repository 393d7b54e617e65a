import { availableParallelism, constants, getPriority, setPriority } from "node:os";

/** On a busy core, a thread whose nice value is lower by this gets about nine times as much time as another one. */
const RAISED_BY = 10;

/**
 * Raises the priority of the calling thread, and of those that it starts from now on. Returns whether the system allows it, which on
 * Linux needs CAP_SYS_NICE or a limit (`LimitNICE`, RLIMIT_NICE). Other systems have one priority for the whole process. On a single
 * core, busy media workers would leave nothing to requests and chat.
 */
export function raiseThreadPriority(cores = availableParallelism()): boolean {
  if (process.platform !== "linux" || cores === 1) return false;
  try {
    setPriority(Math.max(constants.priority.PRIORITY_HIGHEST, getPriority() - RAISED_BY));
    return true;
  } catch {
    return false;
  }
}
