import type { RetentionService } from "../chat/retention.service.ts";
import type { Job } from "./scheduler.ts";

/** Messages past their retention go, a little every minute rather than all at once. */
export const expireMessages = (retention: RetentionService): Job => ({
  name: "expire-messages",
  everyMs: 60_000,
  async runDue() {
    await retention.removeDue();
  },
});
