import type { Runtime } from "../../kernel/runtime.ts";
import type { ChatService } from "../chat/chat.ts";
import { createPushDispatcher } from "./dispatcher.ts";
import { createFanOut } from "./fan-out.ts";
import { pushStore } from "./push.store.ts";
import { subscriptionService } from "./subscription.service.ts";
import { createVapid } from "./vapid.ts";

export type Push = ReturnType<typeof createPush>;

/** Web Push to members without an open socket, for messages, mentions and rings. */
export function createPush(runtime: Runtime, { chat }: { chat: ChatService }) {
  const store = pushStore(runtime.db);
  const subscriptions = subscriptionService(runtime, store, chat.access);
  const vapid = createVapid(runtime.config, runtime.keyring);
  const fanOut = createFanOut(runtime, { store, subscriptions, chat }, () => dispatcher.wake());
  const dispatcher = createPushDispatcher(runtime, { store, subscriptions, chat, vapid, fanOut });
  return { subscriptions, vapid, dispatcher };
}
