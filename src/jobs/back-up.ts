import type { BackupSchedule } from "../backup/schedule.ts";
import type { Job } from "./scheduler.ts";

/** Looks once a minute whether a backup is due. */
export const backUp = ({ runDue, giveUp }: BackupSchedule): Job => ({
  name: "back-up",
  everyMs: 60_000,
  runDue,
  giveUp,
});
