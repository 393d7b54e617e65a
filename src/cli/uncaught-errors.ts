import type { Log } from "../kernel/log.ts";

/** Beyond this number within a minute the cause does not go away, and the supervisor has to start the process again. */
const MOST_IN_A_MINUTE = 100;
const MINUTE_MS = 60_000;

/**
 * Keeps a server running after an error that nothing has caught, as media workers and the TLS thread do: the end of the process would
 * end everyone's calls. Called when the server has started, because an error before that is the operator's to correct.
 */
export function surviveUncaughtErrors(log: Log, end: (reason: string, exitCode: number) => void): void {
  let [count, since] = [0, performance.now()];
  const note = (err: unknown) => {
    log.error({ err }, "server: uncaught error");
    if (performance.now() - since > MINUTE_MS) [count, since] = [0, performance.now()];
    if (++count === MOST_IN_A_MINUTE) end("uncaught errors", 1);
  };
  process.on("uncaughtException", note).on("unhandledRejection", note);
}
