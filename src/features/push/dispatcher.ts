import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { SerialRun } from "../../kernel/scheduling/serial-run.ts";
import { iso } from "../../kernel/time/clock.ts";
import { VERSION } from "../../kernel/version.ts";
import type { PushPayload } from "../../protocol/chat-records.ts";
import type { ChatService } from "../chat/chat.ts";
import { attempt, type Outcome } from "../webhooks/attempt.ts";
import { createDeliverySlots } from "../webhooks/delivery-limits.ts";
import { backoffMs } from "../webhooks/retry.ts";
import { loopbackAllowed, targetRule } from "../webhooks/url-check.ts";
import { encryptPush, receiverKeys } from "./encryption.ts";
import type { PushStore } from "./push.store.ts";
import type { DeliveryRow, SubscriptionRow } from "./push.table.ts";
import type { SubscriptionService } from "./subscription.service.ts";
import type { Vapid } from "./vapid.ts";

type DispatcherDeps = {
  store: PushStore;
  subscriptions: SubscriptionService;
  chat: ChatService;
  vapid: Vapid;
  /** Processes one batch of the queue. Returns the push services to notify; null when the queue is empty. */
  fanOut: (unit: Unit) => Set<string> | null;
};
type Running = { subscriptionId: string; controller: AbortController; done: Promise<void> };

const MAX_ATTEMPTS_AT_ONCE = 64;
/** Any user can subscribe with endpoints that never respond, at as many hosts as it has names. */
const SLOTS = { all: MAX_ATTEMPTS_AT_ONCE, perEndpoint: 16, unproven: 40 };
const CHECK_EVERY_MS = 10_000;
/** Enough for a notification; the conversation has the whole text. */
const MAX_TEXT_CHARACTERS = 300;

/**
 * Sends due deliveries. A delivery stays in the database until its outcome is saved, so that an attempt that a crash
 * interrupts is repeated.
 */
export function createPushDispatcher(runtime: Runtime, deps: DispatcherDeps) {
  const { config, log, metrics, now, timers, write } = runtime;
  const { store, subscriptions, chat, vapid, fanOut } = deps;
  const attempts = metrics.counter("stoa_push_attempts_total", "Web Push attempts by outcome", ["outcome"]);
  const running = new Map<number, Running>();
  const slots = createDeliverySlots(SLOTS);
  /** When the first delivery to each push service is due, by its origin. Those that were served are at the end. */
  const wakeAt = new Map<string, number>();
  /** `stepping` is `runDue` without `start`: it sends due deliveries and then stops. */
  let state: "idle" | "stepping" | "started" | "stopped" = "idle";
  const rounds = new SerialRun(startDue);
  let cancelTimer = () => {};

  const isSending = () => state === "started" || state === "stepping";

  function wake(): void {
    if (isSending()) void rounds.run();
  }

  function wakeAll(): void {
    for (const { origin, dueAt } of store.waitingOrigins()) wakeAt.set(origin, dueAt);
  }

  async function startDue(): Promise<void> {
    try {
      for (let origins = await write(fanOut); origins !== null; origins = await write(fanOut)) {
        for (const origin of origins) wakeAt.set(origin, now());
      }
      launchDue();
    } catch (err) {
      log.error({ err }, "push: starting due deliveries failed");
    }
    setTimer();
  }

  function setTimer(): void {
    cancelTimer();
    if (state !== "started") return;
    const at = now();
    let next = at + CHECK_EVERY_MS;
    // Push services that are due already wait for a slot and are served when one is released.
    for (const dueAt of wakeAt.values()) if (dueAt > at && dueAt < next) next = dueAt;
    cancelTimer = timers.after(next - at, wake);
  }

  /** Sends one delivery per push service and round until no more may be sent now. */
  function launchDue(): void {
    if (!isSending()) return;
    const at = now();
    let launched = true;
    while (launched) {
      launched = false;
      for (const [origin, dueAt] of [...wakeAt]) {
        if (dueAt <= at && slots.isFree(origin) && serve(origin, at)) launched = true;
      }
    }
  }

  /** Returns true when a delivery was sent. */
  function serve(origin: string, at: number): boolean {
    wakeAt.delete(origin);
    // Each subscription has one attempt at a time: what follows may replace it, or would time out as well.
    const delivery = store.nextTo(
      origin,
      [...running.values()].map(({ subscriptionId }) => subscriptionId),
    );
    const subscription = delivery && store.get(delivery.subscriptionId);
    if (!subscription) return false;
    wakeAt.set(origin, delivery.nextAttemptAt);
    if (delivery.nextAttemptAt > at) return false;
    launch(delivery, subscription);
    return true;
  }

  function launch(delivery: DeliveryRow, subscription: SubscriptionRow): void {
    const controller = new AbortController();
    const done = deliver(delivery, subscription, controller).finally(() => {
      running.delete(delivery.id);
      wakeAt.set(delivery.origin, now());
      wake();
    });
    running.set(delivery.id, { subscriptionId: subscription.id, controller, done });
  }

  async function deliver(delivery: DeliveryRow, subscription: SubscriptionRow, controller: AbortController) {
    const release = slots.take(delivery.origin);
    let responded: boolean | null = null;
    try {
      const outcome = await send(delivery, subscription, controller);
      if (outcome !== "dropped") responded = outcome.kind === "answered";
      if (outcome === "dropped") await write((unit) => store.removeDelivery(unit, delivery));
      else if (outcome.kind !== "abandoned") await write((unit) => record(unit, delivery, subscription, outcome));
    } catch (err) {
      log.error({ err }, "push: outcome of a delivery not saved");
    } finally {
      release(responded);
    }
  }

  async function send(
    delivery: DeliveryRow,
    subscription: SubscriptionRow,
    controller: AbortController,
  ): Promise<Outcome | "dropped"> {
    if (!subscriptions.mayReceive(subscription, delivery.conversationId)) return "dropped";
    const payload = payloadOf(chat, delivery, subscription);
    const keys = receiverKeys(subscription.p256dh, subscription.auth);
    const ttlSeconds = Math.floor((delivery.expiresAt - now()) / 1000);
    if (payload === null || keys === null || ttlSeconds <= 0) return "dropped";
    const { endpoint } = subscription;
    return attempt(runtime, {
      url: endpoint,
      // End users choose these endpoints, so private addresses, which developers may use for webhooks, are rejected.
      allows: targetRule(subscription.environment, false, loopbackAllowed(config)),
      headers: {
        authorization: vapid.authorization(endpoint, now()),
        "content-type": "application/octet-stream",
        "content-encoding": "aes128gcm",
        "user-agent": `Stoa-Push/${VERSION}`,
        ttl: String(ttlSeconds),
        topic: delivery.topic,
        urgency: delivery.kind === "message" ? "normal" : "high",
      },
      body: new Uint8Array(encryptPush(Buffer.from(JSON.stringify(payload)), keys)),
      timeoutMs: config.WEBHOOK_TIMEOUT_MS,
      controller,
    });
  }

  function record(
    unit: Unit,
    delivery: DeliveryRow,
    subscription: SubscriptionRow,
    outcome: Exclude<Outcome, { kind: "abandoned" }>,
  ): void {
    const status = outcome.kind === "answered" ? outcome.statusCode : 0;
    const isGone = status === 404 || status === 410;
    attempts.inc({ outcome: outcome.error === null ? "delivered" : isGone ? "gone" : outcome.kind });
    // The push service reports that the browser has unsubscribed.
    if (isGone) {
      store.remove(unit, subscription.id);
      return;
    }
    if (outcome.error === null) {
      store.setPushedAt(unit, subscription.id, now());
      store.removeDelivery(unit, delivery);
      return;
    }
    const attemptCount = delivery.attemptCount + 1;
    const retryAfterMs = outcome.kind === "answered" ? outcome.retryAfterMs : null;
    const nextAt = now() + (retryAfterMs ?? backoffMs(attemptCount, config.WEBHOOK_BACKOFF_BASE_MS, Math.random()));
    // A push service that rejected a push would reject it again, and a late ring is of no use.
    const isRefused = status >= 400 && status < 500 && status !== 429 && status !== 401 && status !== 403;
    if (isRefused || attemptCount >= config.WEBHOOK_MAX_ATTEMPTS || nextAt >= delivery.expiresAt) {
      log.warn({ host: new URL(subscription.endpoint).host, error: outcome.error }, "push: delivery dropped");
      store.removeDelivery(unit, delivery);
    } else store.retryAt(unit, delivery, nextAt);
    // Other deliveries to a push endpoint that does not respond would time out as well.
    if (status === 0) store.postpone(unit, subscription.id, nextAt);
  }

  async function untilIdle(): Promise<void> {
    while (rounds.running || running.size > 0) {
      await rounds.running;
      await Promise.all([...running.values()].map(({ done }) => done));
    }
  }

  return {
    wake,
    start(): void {
      state = "started";
      wakeAll();
      wake();
    },
    /** Waits for running attempts until `deadline`; aborted ones are repeated after the restart. */
    async stop(deadline: number): Promise<void> {
      state = "stopped";
      cancelTimer();
      const abortAll = () => {
        for (const { controller } of running.values()) controller.abort();
      };
      const cancelAbort = timers.after(Math.max(0, deadline - now()), abortAll);
      if (deadline <= now()) abortAll();
      await untilIdle();
      cancelAbort();
    },
    /** Sends everything that is due; resolves when no attempt is running. */
    async runDue(): Promise<void> {
      if (state === "idle") state = "stepping";
      wakeAll();
      await rounds.run();
      await untilIdle();
      if (state === "stepping") state = "idle";
    },
  };
}

/** The current state of the message or ring; null when it was deleted or has ended. */
function payloadOf(chat: ChatService, delivery: DeliveryRow, { userId }: SubscriptionRow): PushPayload | null {
  const conversation = chat.conversations.find(delivery.conversationId);
  if (!conversation) return null;
  const { unreadCount } = chat.readStates.unread(conversation, userId);
  const base = {
    type: delivery.kind,
    conversationId: conversation.publicId,
    conversationName: conversation.name,
    roomId: conversation.roomId,
    unreadCount,
    tag: delivery.topic,
  };
  if (delivery.kind === "ring" || delivery.kind === "missed_call") {
    const ring = chat.rings.find(delivery.subjectId);
    if (!ring || (delivery.kind === "ring" && ring.endedAt !== null)) return null;
    const { callerUserId, publicId, startedAt } = ring;
    return { ...base, senderId: callerUserId, text: null, messageId: null, ringId: publicId, at: iso(startedAt) };
  }
  const message = chat.messages.store.find(delivery.subjectId);
  if (!message || message.deletedAt !== null) return null;
  const text = message.text === null ? null : [...message.text].slice(0, MAX_TEXT_CHARACTERS).join("");
  const { senderId, publicId, createdAt } = message;
  return { ...base, senderId, text, messageId: publicId, ringId: null, at: iso(createdAt) };
}
