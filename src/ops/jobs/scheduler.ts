import type { Runtime } from "../../kernel/runtime.ts";
import { every } from "../../kernel/time/timers.ts";

/** Work that comes back by itself; jobs.ts lists it. */
export type Job = {
  name: string;
  everyMs: number;
  /** Does what is due at `now`; not called again before it has ended. */
  runDue(now: number): void | Promise<void>;
  /** The server stops: what takes long, and can be done another time, ends now. */
  giveUp?(): void;
};

/** Each job at its own pace; one that fails is tried again at its next turn. The answer stops them all. */
export function startJobs(jobs: readonly Job[], runtime: Runtime): () => Promise<void> {
  const { log, now } = runtime;
  const running = new Set<Promise<void>>();

  async function run(job: Job): Promise<void> {
    try {
      await job.runDue(now());
    } catch (err) {
      log.error({ err, job: job.name }, "job failed");
    }
  }

  const stops = jobs.map((job) =>
    every(runtime, job.everyMs, async () => {
      const turn = run(job);
      running.add(turn);
      await turn;
      running.delete(turn);
    }),
  );
  return async () => {
    for (const stop of stops) stop();
    for (const job of jobs) job.giveUp?.();
    await Promise.all(running);
  };
}
