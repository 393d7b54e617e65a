import type { Activity } from "../observability/activity.ts";
import type { Job } from "./scheduler.ts";

/** What was counted in memory goes on record. */
export const keepActivity = (activity: Pick<Activity, "flush">): Job => ({
  name: "keep-activity",
  everyMs: 60_000,
  runDue: () => activity.flush(),
});
