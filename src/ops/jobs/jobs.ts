import type { Runtime } from "../../kernel/runtime.ts";
import type { Services } from "../../services.ts";
import { backupSchedule } from "../backup/schedule.ts";
import type { Job } from "./scheduler.ts";

const MINUTE_MS = 60_000;
const TEN_MINUTES_MS = 10 * MINUTE_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Every recurring job of the server. */
export function createJobs(runtime: Runtime, services: Services): Job[] {
  const backups = backupSchedule(runtime);
  const { attachments, chat, deliveries, idempotency, retention, rtcTokens, rtcSessions, recordings, privacy } =
    services;
  return [
    {
      name: "clean-up-attachments",
      everyMs: TEN_MINUTES_MS,
      async runDue() {
        await attachments.removals.expireUnsent();
        // Removals that failed before are tried again.
        await attachments.removals.run();
      },
    },
    // A little every minute rather than all at once.
    { name: "expire-messages", everyMs: MINUTE_MS, runDue: async () => void (await retention.removeDue()) },
    { name: "prune-chat", everyMs: TEN_MINUTES_MS, runDue: () => chat.prune() },
    { name: "prune-webhooks", everyMs: HOUR_MS, runDue: (now) => deliveries.prune(now) },
    { name: "prune-connections", everyMs: HOUR_MS, runDue: () => rtcSessions.connections.prune() },
    { name: "prune-calls", everyMs: HOUR_MS, runDue: () => rtcSessions.calls.prune() },
    { name: "tidy-recordings", everyMs: MINUTE_MS, runDue: () => recordings.tidy() },
    { name: "move-recordings", everyMs: MINUTE_MS, runDue: () => recordings.places.run() },
    { name: "prune-exports", everyMs: HOUR_MS, runDue: () => privacy.exports.prune() },
    { name: "forget-addresses", everyMs: HOUR_MS, runDue: () => privacy.removeOldAddresses() },
    { name: "keep-activity", everyMs: MINUTE_MS, runDue: () => rtcSessions.activity.flush() },
    {
      name: "sweep-credentials",
      everyMs: TEN_MINUTES_MS,
      async runDue() {
        await idempotency.sweep();
        await rtcTokens.sweep();
      },
    },
    // Looks whether a backup is due.
    { name: "back-up", everyMs: MINUTE_MS, runDue: backups.runDue, giveUp: backups.giveUp },
  ];
}
