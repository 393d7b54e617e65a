import type { Services } from "../services.ts";
import { pruneWebhooks } from "./prune-webhooks.ts";
import type { Job } from "./scheduler.ts";

/** Every recurring job of the server. */
export function createJobs({ deliveries }: Services): Job[] {
  return [pruneWebhooks(deliveries)];
}
