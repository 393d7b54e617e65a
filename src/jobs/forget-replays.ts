import type { Idempotency } from "../kernel/http/idempotency.ts";
import type { Job } from "./scheduler.ts";

/** Answers kept for an Idempotency-Key go when their window is over. */
export const forgetReplays = (idempotency: Idempotency): Job => ({
  name: "forget-replays",
  everyMs: 60_000,
  runDue: () => idempotency.sweep(),
});
