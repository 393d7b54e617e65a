import type { DatabaseHealth } from "../kernel/db/health.ts";
import { shrinkDatabase } from "../kernel/db/shrink.ts";
import { pruneCopies, type Runtime } from "../kernel/runtime.ts";
import { every } from "../kernel/time/timers.ts";
import type { Services } from "../services.ts";
import { backupSchedule } from "./backup/schedule.ts";

const MINUTE_MS = 60_000;
const TEN_MINUTES_MS = 10 * MINUTE_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Periodic work of the server. */
export type Job = {
  name: string;
  everyMs: number;
  /** Does the work that is due at `now`. The next call is made after this one has ended. */
  runDue(now: number): void | Promise<void>;
  /** Called when the server stops: long work that can be done later ends now. */
  giveUp?(): void;
};

/**
 * Runs each job at its interval; a job that fails is retried at the next one. Returns the function that stops all jobs.
 */
export function startJobs(jobs: readonly Job[], runtime: Runtime): () => Promise<void> {
  const { log, now } = runtime;
  const running = new Set<Promise<void>>();

  async function run(job: Job): Promise<void> {
    try {
      await job.runDue(now());
    } catch (err) {
      log.error({ err, job: job.name }, "jobs: job failed");
    }
  }

  const stops = jobs.map((job) =>
    every(runtime, job.everyMs, async () => {
      const done = run(job);
      running.add(done);
      await done;
      running.delete(done);
    }),
  );
  return async () => {
    for (const stop of stops) stop();
    for (const job of jobs) job.giveUp?.();
    await Promise.all(running);
  };
}

/** Every recurring job of the server. */
export function createJobs(runtime: Runtime, services: Services, database?: Pick<DatabaseHealth, "report">): Job[] {
  const backups = backupSchedule(runtime, { database });
  const {
    attachments,
    chat,
    deliveries,
    idempotency,
    retention,
    rtcTokens,
    rtcSessions,
    recordings,
    egresses,
    privacy,
    push,
  } = services;
  return [
    {
      name: "clean-up-attachments",
      everyMs: TEN_MINUTES_MS,
      async runDue() {
        await attachments.removals.expireUnsent();
        // This also retries earlier removals that failed.
        await attachments.removals.run();
      },
    },
    // Removing a few messages every minute avoids a long pause.
    { name: "expire-messages", everyMs: MINUTE_MS, runDue: async () => void (await retention.removeDue()) },
    { name: "prune-chat", everyMs: TEN_MINUTES_MS, runDue: () => chat.prune() },
    { name: "prune-webhooks", everyMs: HOUR_MS, runDue: (now) => deliveries.prune(now) },
    { name: "prune-connections", everyMs: HOUR_MS, runDue: () => rtcSessions.connections.prune() },
    { name: "prune-calls", everyMs: HOUR_MS, runDue: () => rtcSessions.calls.prune() },
    { name: "tidy-egresses", everyMs: HOUR_MS, runDue: () => egresses.prune() },
    { name: "tidy-recordings", everyMs: MINUTE_MS, runDue: () => recordings.prune() },
    { name: "move-recordings", everyMs: MINUTE_MS, runDue: () => recordings.locations.moveFiles() },
    { name: "prune-exports", everyMs: HOUR_MS, runDue: () => privacy.exports.prune() },
    { name: "forget-addresses", everyMs: HOUR_MS, runDue: () => privacy.removeOldAddresses() },
    { name: "keep-activity", everyMs: MINUTE_MS, runDue: () => rtcSessions.activity.flush() },
    {
      name: "sweep-credentials",
      everyMs: TEN_MINUTES_MS,
      async runDue() {
        await idempotency.sweep();
        await rtcTokens.sweep();
        await runtime.write(push.subscriptions.sweep);
      },
    },
    // With a commit log, transactions span several event-loop ticks, and the file is one of several copies.
    {
      name: "shrink-database",
      everyMs: TEN_MINUTES_MS,
      runDue: async () => {
        if (runtime.logged === null) await shrinkDatabase(runtime.db.$client, runtime.write, runtime.timers);
      },
    },
    { name: "prune-copies", everyMs: HOUR_MS, runDue: (now) => pruneCopies(runtime.config.DATA_DIR, now) },
    { name: "back-up", everyMs: MINUTE_MS, runDue: backups.runDue, giveUp: backups.giveUp },
  ];
}
