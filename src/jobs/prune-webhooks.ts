import type { DeliveryService } from "../webhooks/delivery.service.ts";
import type { Job } from "./scheduler.ts";

/** Events and deliveries are kept for 30 days. */
export const pruneWebhooks = (deliveries: DeliveryService): Job => ({
  name: "prune-webhooks",
  everyMs: 3_600_000,
  runDue: (now) => deliveries.prune(now),
});
