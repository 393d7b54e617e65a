import type { Services } from "../services.ts";
import { cleanUpAttachments } from "./clean-up-attachments.ts";
import { expireMessages } from "./expire-messages.ts";
import { pruneChat } from "./prune-chat.ts";
import { pruneWebhooks } from "./prune-webhooks.ts";
import type { Job } from "./scheduler.ts";

/** Every recurring job of the server. */
export function createJobs({ attachments, chat, deliveries, retention }: Services): Job[] {
  return [cleanUpAttachments(attachments), expireMessages(retention), pruneChat(chat), pruneWebhooks(deliveries)];
}
