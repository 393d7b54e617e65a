import type { Runtime } from "../runtime.ts";
import { createDelivery } from "./deliver.ts";
import type { PendingDelivery } from "./delivery.store.ts";
import { createLanes, LANES_PER_ENDPOINT } from "./lanes.ts";
import { createQueue } from "./queue.ts";
import type { WebhookStores } from "./stores.ts";
import type { EndpointRow } from "./webhook.table.ts";

export type Dispatcher = {
  /** Sends what is due, and goes on doing so as events come in and waits run out. */
  start(): void;
  /** Lets running attempts end until `deadline`; what is cut off is sent again after the restart. */
  stop(deadline: number): Promise<void>;
  /** Sends everything that is due now; resolves when no attempt is running. */
  runDue(): Promise<void>;
};

const LONGEST_TIMER_MS = 3_600_000;
const AFTER_TROUBLE_MS = 10_000;

/**
 * Decides which delivery is tried when. All state that matters is in the database: a delivery is PENDING until an outcome
 * is written, so whatever a crash interrupts is due again. No transaction is open while an endpoint takes its time.
 */
export function createDispatcher(runtime: Runtime, stores: WebhookStores, random = Math.random): Dispatcher {
  const { bus, log, now, timers } = runtime;
  const { endpoints, deliveries } = stores;
  const queue = createQueue(runtime, stores);
  const deliver = createDelivery(runtime, stores, random);
  const lanes = createLanes();
  /** Endpoints with something pending, and when to look at them; served in this order, then moved to the end. */
  const wakeAt = new Map<string, number>();
  const running = new Map<string, { controller: AbortController; done: Promise<void> }>();
  let state: "idle" | "started" | "stopped" = "idle";
  let cancelTimer = () => {};
  let pumpAhead = false;

  bus.on("webhookDeliveriesDue", ({ endpointId }) => {
    wake(endpointId, now());
    pumpSoon();
  });
  bus.on("webhook", () => {
    if (state === "started") queueAll();
  });

  function queueAll(): void {
    queue.run().catch((err) => log.error({ err }, "webhook events stay in the outbox"));
  }

  function wake(endpointId: string, at: number): void {
    wakeAt.set(endpointId, Math.min(at, wakeAt.get(endpointId) ?? Number.POSITIVE_INFINITY));
  }

  function wakeAllPending(): void {
    for (const endpointId of deliveries.pendingEndpoints()) wake(endpointId, now());
  }

  /** Once for all that one commit brings. */
  function pumpSoon(): void {
    if (state !== "started" || pumpAhead) return;
    pumpAhead = true;
    queueMicrotask(() => {
      pumpAhead = false;
      pump();
    });
  }

  /** Round after round over the endpoints, one delivery each, until nothing more is due or may be sent now. */
  function pump(): void {
    if (state === "stopped") return;
    const at = now();
    try {
      let launched = true;
      while (launched) {
        launched = false;
        for (const [endpointId, dueAt] of [...wakeAt]) {
          if (dueAt <= at && lanes.free(endpointId) && launchOne(endpointId, at)) launched = true;
        }
      }
    } catch (err) {
      log.error({ err }, "webhook deliveries cannot be read");
    }
    if (state === "started") setTimer(at);
  }

  function setTimer(at: number): void {
    cancelTimer();
    let next = at + LONGEST_TIMER_MS;
    // Those due already wait for a lane, and are looked at when one gets free.
    for (const dueAt of wakeAt.values()) if (dueAt > at && dueAt < next) next = dueAt;
    cancelTimer = timers.after(next - at, pump);
  }

  function launchOne(endpointId: string, at: number): boolean {
    wakeAt.delete(endpointId);
    const endpoint = endpoints.get(endpointId);
    const next = endpoint && nextPending(endpoint);
    if (!next) return false;
    const dueAt = next.dueAt ?? at;
    // To the end of the line: the others come first now.
    wakeAt.set(endpointId, dueAt);
    if (dueAt > at) return false;
    const controller = new AbortController();
    running.set(next.id, { controller, done: launch(endpoint, next, controller) });
    return true;
  }

  function nextPending(endpoint: EndpointRow): PendingDelivery | undefined {
    return deliveries
      .pending(endpoint.id, LANES_PER_ENDPOINT + 1, endpoint.status === "DISABLED")
      .find(({ id }) => !running.has(id));
  }

  async function launch(endpoint: EndpointRow, delivery: PendingDelivery, controller: AbortController): Promise<void> {
    const release = lanes.take(endpoint.id);
    let answered = false;
    try {
      const result = await deliver(endpoint, delivery, controller);
      answered = result.answered;
      if (result.nextAttemptAt !== null) wake(endpoint.id, result.nextAttemptAt);
    } catch (err) {
      log.error({ err, deliveryId: delivery.id }, "the outcome of a webhook delivery was not written");
      wake(endpoint.id, now() + AFTER_TROUBLE_MS);
    } finally {
      release(answered);
      running.delete(delivery.id);
      pump();
    }
  }

  async function idle(): Promise<void> {
    while (running.size > 0) await Promise.all([...running.values()].map(({ done }) => done));
  }

  function cutOff(): void {
    for (const { controller } of running.values()) controller.abort();
  }

  return {
    start() {
      state = "started";
      wakeAllPending();
      queueAll();
      pump();
    },
    async stop(deadline) {
      state = "stopped";
      cancelTimer();
      const cancelCutOff = timers.after(Math.max(0, deadline - now()), cutOff);
      if (deadline <= now()) cutOff();
      await idle();
      cancelCutOff();
    },
    async runDue() {
      await queue.run();
      wakeAllPending();
      pump();
      await idle();
    },
  };
}
