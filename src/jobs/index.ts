import type { Runtime } from "../runtime.ts";
import type { Services } from "../services.ts";
import { cleanUpAttachments } from "./clean-up-attachments.ts";
import { expireMessages } from "./expire-messages.ts";
import { forgetReplays } from "./forget-replays.ts";
import { pruneChat } from "./prune-chat.ts";
import { pruneRtcTokens } from "./prune-rtc-tokens.ts";
import { pruneWebhooks } from "./prune-webhooks.ts";
import type { Job } from "./scheduler.ts";

/** Every recurring job of the server. */
export function createJobs(runtime: Runtime, services: Services): Job[] {
  const { attachments, chat, deliveries, idempotency, retention, rtcTokens } = services;
  return [
    cleanUpAttachments(attachments),
    expireMessages(retention),
    forgetReplays(idempotency),
    pruneChat(chat),
    pruneRtcTokens(runtime, rtcTokens),
    pruneWebhooks(deliveries),
  ];
}
