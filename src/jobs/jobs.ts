import type { Services } from "../services.ts";
import { backUp } from "./back-up.ts";
import { cleanUpAttachments } from "./clean-up-attachments.ts";
import { expireMessages } from "./expire-messages.ts";
import { keepActivity } from "./keep-activity.ts";
import { pruneChat } from "./prune-chat.ts";
import { pruneConnections } from "./prune-connections.ts";
import { pruneWebhooks } from "./prune-webhooks.ts";
import type { Job } from "./scheduler.ts";
import { sweepCredentials } from "./sweep-credentials.ts";

/** Every recurring job of the server. */
export function createJobs(services: Services): Job[] {
  const { attachments, backups, chat, deliveries, idempotency, observability, retention, rtcTokens } = services;
  return [
    cleanUpAttachments(attachments),
    expireMessages(retention),
    pruneChat(chat),
    pruneWebhooks(deliveries),
    pruneConnections(observability),
    keepActivity(observability.activity),
    sweepCredentials({ idempotency, rtcTokens }),
    backUp(backups),
  ];
}
