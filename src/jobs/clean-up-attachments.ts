import type { Attachments } from "../chat/attachments/attachments.ts";
import type { Job } from "./scheduler.ts";

/** Uploads that were never sent are given up, and removals that failed are tried again. */
export const cleanUpAttachments = ({ removals }: Attachments): Job => ({
  name: "clean-up-attachments",
  everyMs: 600_000,
  async runDue() {
    await removals.expireUnsent();
    await removals.run();
  },
});
