/** Ends the process as a signal does. */
type End = (reason: string, exitCode: number) => void;
type Running = { stop(reason: string, graceMs: number): Promise<void> };

const DRAIN_MS = 30_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Starts a server and runs it until SIGTERM or SIGINT, then drains; a second signal does not wait any longer. SIGHUP is
 * ignored, so that closing the terminal a server was started from does not end it.
 */
export async function runUntilSignal(begin: (end: End) => Promise<Running>): Promise<never> {
  process.on("SIGHUP", () => {});
  // Bun busy-polls while the only pending work is timers that do not keep the process alive, so a timer that does is set.
  setInterval(() => {}, LONGEST_TIMER_MS);
  // A signal that arrives during startup must neither be lost nor end the process without a drain.
  const { promise: ending, resolve: end } = Promise.withResolvers<Parameters<End>>();
  const onSignal = (name: NodeJS.Signals) => {
    process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    process.once("SIGTERM", () => process.exit(1)).once("SIGINT", () => process.exit(1));
    end([name, 0]);
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  const server = await begin((...given) => end(given));
  const [reason, exitCode] = await ending;
  await server.stop(reason, DRAIN_MS);
  process.exit(exitCode);
}
