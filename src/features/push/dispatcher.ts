import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { VERSION } from "../../kernel/version.ts";
import type { ChatService } from "../chat/chat.ts";
import { attempt, type Outcome } from "../webhooks/attempt.ts";
import { backoffMs } from "../webhooks/schedule.ts";
import { encryptPush, receiverKeys } from "./encryption.ts";
import { payloadOf } from "./payload.ts";
import type { PushStore } from "./push.store.ts";
import type { DeliveryRow, SubscriptionRow } from "./push.table.ts";
import type { Vapid } from "./vapid.ts";

type DispatcherDeps = {
  store: PushStore;
  chat: ChatService;
  vapid: Vapid;
  /** Decides who is to be woken for the oldest that waits; false when nothing does. */
  fanOut: (unit: Unit) => boolean;
};
type Running = { origin: string; subscriptionId: string; controller: AbortController; done: Promise<void> };

const UNDER_WAY = 64;
/** A push service that hangs keeps no other from being asked. */
const UNDER_WAY_PER_ORIGIN = 16;
const LOOKED_AT = 512;
const LOOK_AGAIN_MS = 10_000;

export type PushDispatcher = ReturnType<typeof createPushDispatcher>;

/**
 * Sends what is due. As with webhooks all that matters is in the database: a delivery stands there until its outcome is
 * written, so that what a crash interrupts is sent after it.
 */
export function createPushDispatcher(runtime: Runtime, deps: DispatcherDeps, random = Math.random) {
  const { config, log, metrics, now, timers, write } = runtime;
  const { store, chat, vapid, fanOut } = deps;
  const attempts = metrics.counter("stoa_push_attempts_total", "Web Push attempts by outcome", ["outcome"]);
  const running = new Map<number, Running>();
  let state: "idle" | "started" | "stopped" = "idle";
  let working: Promise<void> | null = null;
  let again = false;
  let cancelTimer = () => {};

  function wake(): void {
    if (state === "started") void work();
  }

  /** One round at a time; whoever wakes it meanwhile gets another one. */
  function work(): Promise<void> {
    again = true;
    working ??= (async () => {
      try {
        while (again) {
          again = false;
          while (await write(fanOut));
          launchDue();
        }
      } catch (err) {
        log.error({ err }, "push deliveries cannot be made");
      } finally {
        working = null;
      }
      setTimer();
    })();
    return working;
  }

  function setTimer(): void {
    cancelTimer();
    if (state !== "started") return;
    const at = now();
    const next = Math.min(store.nextDue(at) ?? Number.POSITIVE_INFINITY, at + LOOK_AGAIN_MS);
    cancelTimer = timers.after(next - at, wake);
  }

  function launchDue(): void {
    if (state === "stopped") return;
    for (const delivery of store.due(now(), LOOKED_AT)) {
      if (running.size >= UNDER_WAY) return;
      if (running.has(delivery.id)) continue;
      const subscription = store.get(delivery.subscriptionId);
      if (!subscription) continue;
      const { origin } = new URL(subscription.endpoint);
      const others = [...running.values()];
      // Anybody can name an address that never answers: one at a time, or a busy member's would hold every place.
      if (others.some((one) => one.subscriptionId === subscription.id)) continue;
      if (others.filter((one) => one.origin === origin).length >= UNDER_WAY_PER_ORIGIN) continue;
      const controller = new AbortController();
      const done = deliver(delivery, subscription, controller).finally(() => {
        running.delete(delivery.id);
        wake();
      });
      running.set(delivery.id, { origin, subscriptionId: subscription.id, controller, done });
    }
  }

  async function deliver(delivery: DeliveryRow, subscription: SubscriptionRow, controller: AbortController) {
    try {
      const outcome = await send(delivery, subscription, controller);
      if (outcome === "dropped") await write((unit) => store.settle(unit, delivery));
      else if (outcome.kind !== "abandoned") await write((unit) => record(unit, delivery, subscription, outcome));
    } catch (err) {
      log.error({ err }, "the outcome of a push was not written");
    }
  }

  async function send(
    delivery: DeliveryRow,
    subscription: SubscriptionRow,
    controller: AbortController,
  ): Promise<Outcome | "dropped"> {
    const payload = payloadOf(chat, delivery, subscription);
    const keys = receiverKeys(subscription.p256dh, subscription.auth);
    const ttlSeconds = Math.floor((delivery.expiresAt - now()) / 1000);
    if (payload === null || keys === null || ttlSeconds <= 0) return "dropped";
    const { endpoint } = subscription;
    return attempt(runtime, {
      url: endpoint,
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
    // The browser unsubscribed, or is no more; what else waits for it goes with it.
    if (isGone) {
      store.remove(unit, subscription.id);
      return;
    }
    if (outcome.error === null) {
      store.pushed(unit, subscription.id, now());
      store.settle(unit, delivery);
      return;
    }
    const tried = delivery.attemptCount + 1;
    const asked = outcome.kind === "answered" ? outcome.retryAfterMs : null;
    const nextAt = now() + (asked ?? backoffMs(tried, config.WEBHOOK_BACKOFF_BASE_MS, random()));
    // What the push service does not take it will not take later either; nor is a late ring of any use.
    const isRefused = status >= 400 && status < 500 && status !== 429 && status !== 401 && status !== 403;
    if (isRefused || tried >= config.WEBHOOK_MAX_ATTEMPTS || nextAt >= delivery.expiresAt) {
      log.warn({ host: new URL(subscription.endpoint).host, error: outcome.error }, "a push was given up");
      store.settle(unit, delivery);
    } else store.again(unit, delivery, nextAt);
    // What else waits for an address that does not answer would only hang as long.
    if (status === 0) store.rest(unit, subscription.id, nextAt);
  }

  async function idle(): Promise<void> {
    while (working || running.size > 0) {
      await working;
      await Promise.all([...running.values()].map(({ done }) => done));
    }
  }

  return {
    wake,
    start(): void {
      state = "started";
      wake();
    },
    /** Lets running attempts end until `deadline`; what is cut off is sent again after the restart. */
    async stop(deadline: number): Promise<void> {
      state = "stopped";
      cancelTimer();
      const cutOff = () => {
        for (const { controller } of running.values()) controller.abort();
      };
      const cancelCutOff = timers.after(Math.max(0, deadline - now()), cutOff);
      if (deadline <= now()) cutOff();
      await idle();
      cancelCutOff();
    },
    /** Sends everything that is due now; resolves when no attempt is running. */
    async runDue(): Promise<void> {
      do {
        await work();
        await idle();
      } while (store.queued() !== null);
    },
  };
}
