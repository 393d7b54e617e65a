import type { Runtime } from "../../kernel/runtime.ts";
import { createDelivery } from "./deliver.ts";
import { AHEAD, createDispatchOrder } from "./dispatch-order.ts";
import { createLanes } from "./lanes.ts";
import { createPace } from "./pace.ts";
import type { PendingDelivery } from "./store/delivery.store.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow } from "./store/webhook.table.ts";

type Dispatcher = {
  /** Sends what is due, and goes on doing so as events come in and waits run out. */
  start(): void;
  /** Lets running attempts end until `deadline`; what is cut off is sent again after the restart. */
  stop(deadline: number): Promise<void>;
  /** Sends everything that is due now; resolves when no attempt is running. */
  runDue(): Promise<void>;
};

type Attempt = { endpointId: string; orderKey: string | null; controller: AbortController; done: Promise<void> };

/** Timers do not notice that the clock was set; what became due by that is seen at the next look. */
const LOOK_AGAIN_MS = 10_000;
const AFTER_TROUBLE_MS = 10_000;
/** What it gets of a turn of the loop: fifty attempts that begin in one take as long as forty requests. */
const TURN_MS = 1;

/**
 * Decides which delivery is tried when. All state that matters is in the database: a delivery is PENDING until an outcome
 * is written, so whatever a crash interrupts is due again. No transaction is open while an endpoint takes its time.
 */
export function createDispatcher(
  runtime: Runtime,
  stores: WebhookStores,
  random = Math.random,
  clock = () => performance.now(),
): Dispatcher {
  const { bus, config, log, now, timers } = runtime;
  const { endpoints, deliveries } = stores;
  const order = createDispatchOrder(runtime, stores, wakeNow);
  const deliver = createDelivery(runtime, stores, random);
  const lanes = createLanes();
  const pace = createPace(config.WEBHOOK_RATE);
  /** Endpoints that may have something to send, and when to look at them; served in this order, then moved to the end. */
  const wakeAt = new Map<string, number>();
  /** By delivery, from the first byte sent until the outcome is on disk. */
  const running = new Map<string, Attempt>();
  /** `stepping`: sending what is due now, and then no more. */
  let state: "idle" | "stepping" | "started" | "stopped" = "idle";
  let pumpAhead = false;
  /** The database takes no outcomes: whatever was sent now would be sent again, as fast as the endpoint answers. */
  let held = false;
  let cancelTimer = () => {};

  bus.on("webhookDeliveriesDue", ({ endpointId }) => wakeNow(endpointId));

  const isSending = () => state === "started" || state === "stepping";

  function wake(endpointId: string, at: number): void {
    wakeAt.set(endpointId, Math.min(at, wakeAt.get(endpointId) ?? Number.POSITIVE_INFINITY));
  }

  function wakeNow(endpointId: string): void {
    wake(endpointId, now());
    pumpSoon();
  }

  function wakeAll(): void {
    for (const endpointId of [...endpoints.active(), ...deliveries.pendingEndpoints()]) wake(endpointId, now());
  }

  /** Once for all that one commit brings. */
  function pumpSoon(schedule: (run: () => void) => unknown = queueMicrotask): void {
    if (!isSending() || pumpAhead) return;
    pumpAhead = true;
    schedule(() => {
      pumpAhead = false;
      pump();
    });
  }

  function pump(): void {
    if (!isSending() || held) return;
    const at = now();
    try {
      // The others are heard first; those that were served meanwhile are behind those that were not.
      if (!serveAll(at, clock() + TURN_MS)) pumpSoon(setImmediate);
    } catch (err) {
      log.error({ err }, "webhook deliveries cannot be read");
    }
    if (state === "started") setTimer(at);
  }

  /** Round after round over the endpoints, one delivery each, until nothing more may be sent now; false when time is over. */
  function serveAll(at: number, endsAt: number): boolean {
    let launched = true;
    while (launched) {
      launched = false;
      for (const [endpointId, dueAt] of [...wakeAt]) {
        if (dueAt > at || !lanes.free(endpointId)) continue;
        if (serve(endpointId, at)) launched = true;
        if (clock() >= endsAt) return false;
      }
    }
    return true;
  }

  function setTimer(at: number): void {
    cancelTimer();
    let next = at + LOOK_AGAIN_MS;
    // Those due already wait for a lane, and are looked at when one gets free.
    for (const dueAt of wakeAt.values()) if (dueAt > at && dueAt < next) next = dueAt;
    cancelTimer = timers.after(next - at, pump);
  }

  /** Sends the endpoint's next delivery, or sees to it that there is one. True when it was sent. */
  function serve(endpointId: string, at: number): boolean {
    wakeAt.delete(endpointId);
    const restsUntil = pace.restsUntil(endpointId, at);
    if (restsUntil > at) {
      wakeAt.set(endpointId, restsUntil);
      return false;
    }
    const endpoint = endpoints.get(endpointId);
    if (!endpoint) {
      pace.forget(endpointId);
      return false;
    }
    const next = nextPending(endpoint);
    // To the end of the line: the others come first now.
    if (next) wakeAt.set(endpointId, next.dueAt);
    if (next && next.dueAt <= at) {
      launch(endpoint, next);
      return true;
    }
    if (!order.isUnderWay(endpointId) && !hasManyBlocked(endpoint, at)) order.request(endpoint);
    return false;
  }

  const attemptsAt = (endpoint: EndpointRow) =>
    [...running.values()].filter(({ endpointId }) => endpointId === endpoint.id);

  /** Never one whose predecessor is under way: both would arrive in whichever order the network likes. */
  function nextPending(endpoint: EndpointRow): PendingDelivery | undefined {
    const underWay = attemptsAt(endpoint);
    const blockedKeys = underWay.flatMap(({ orderKey }) => orderKey ?? []);
    return deliveries
      .pending(endpoint.id, underWay.length + 1, { forcedOnly: endpoint.status === "DISABLED", blockedKeys })
      .find(({ id }) => !running.has(id));
  }

  /** A busy call at a slow endpoint would draw the whole log, and none of it could be sent. */
  function hasManyBlocked(endpoint: EndpointRow, at: number): boolean {
    const many = attemptsAt(endpoint).length + AHEAD;
    const waiting = deliveries.pending(endpoint.id, many, { forcedOnly: false, blockedKeys: [] });
    return waiting.filter(({ dueAt }) => dueAt <= at).length === many;
  }

  function launch(endpoint: EndpointRow, delivery: PendingDelivery): void {
    const controller = new AbortController();
    const { id, orderKey } = delivery;
    running.set(id, { endpointId: endpoint.id, orderKey, controller, done: run(endpoint, delivery, controller) });
  }

  async function run(endpoint: EndpointRow, delivery: PendingDelivery, controller: AbortController): Promise<void> {
    const release = lanes.take(endpoint.id);
    pace.sent(endpoint, now());
    const onAnswer = (answered: boolean) => {
      release(answered);
      pace.ended(endpoint.id, answered, now());
      wakeNow(endpoint.id);
    };
    try {
      const nextAttemptAt = await deliver(endpoint, delivery, controller, onAnswer);
      if (nextAttemptAt !== null) wake(endpoint.id, nextAttemptAt);
    } catch (err) {
      log.error({ err, deliveryId: delivery.id }, "the outcome of a webhook delivery was not written");
      wake(endpoint.id, now());
      hold();
    }
    running.delete(delivery.id);
    // Its successor was passed over until now.
    if (delivery.orderKey !== null) wake(endpoint.id, now());
    pumpSoon();
  }

  function hold(): void {
    if (held) return;
    held = true;
    timers.after(AFTER_TROUBLE_MS, () => {
      held = false;
      pump();
    });
  }

  async function idle(): Promise<void> {
    // What a pump that is about to run will send counts as running.
    do {
      await Promise.all([...running.values()].map(({ done }) => done));
      // One that waits for its turn of the loop gets none while this goes from one promise to the next.
      if (pumpAhead) await new Promise((done) => setImmediate(done));
      await order.settled();
    } while (running.size > 0 || pumpAhead);
  }

  function cutOff(): void {
    for (const { controller } of running.values()) controller.abort();
  }

  return {
    start() {
      state = "started";
      wakeAll();
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
      if (state === "idle") state = "stepping";
      wakeAll();
      pump();
      await idle();
      if (state === "stepping") state = "idle";
    },
  };
}
