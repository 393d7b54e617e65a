import type { Runtime } from "../../kernel/runtime.ts";
import { createDelivery, type LivekitKey } from "./deliver.ts";
import { createDeliverySlots, createDeliveryThrottle } from "./delivery-limits.ts";
import { createOutboxReader, DELIVERIES_AHEAD } from "./outbox-reader.ts";
import type { PendingDelivery } from "./store/delivery.store.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow } from "./store/webhook.table.ts";

type Attempt = { endpointId: string; orderKey: string | null; controller: AbortController; done: Promise<void> };

/** Timers do not notice changes of the clock, so the dispatcher checks for due deliveries at least this often. */
const MAX_TIMER_MS = 10_000;
const PAUSE_AFTER_WRITE_ERROR_MS = 10_000;
/** The share of one event-loop tick; starting fifty attempts takes as long as forty requests. */
const TICK_MS = 1;

/**
 * Decides when each delivery is attempted. Its durable state is in the database: a delivery is PENDING until its
 * outcome is written, so an attempt that a crash interrupts is repeated. No transaction is open during an attempt.
 */
export function createDispatcher(
  runtime: Runtime,
  stores: WebhookStores,
  livekitKey: LivekitKey,
  random = Math.random,
  clock = () => performance.now(),
) {
  const { bus, config, log, now, timers } = runtime;
  const { endpoints, deliveries } = stores;
  const reader = createOutboxReader(runtime, stores, wakeNow);
  const deliver = createDelivery(runtime, stores, livekitKey, random);
  const slots = createDeliverySlots();
  const throttle = createDeliveryThrottle(config.WEBHOOK_RATE);
  /**
   * Endpoints that may have a delivery to send, with the time of the next check; after its check an endpoint moves to
   * the end.
   */
  const wakeAt = new Map<string, number>();
  /** Attempts by delivery id, from their start until their outcome is on disk. */
  const running = new Map<string, Attempt>();
  /** `stepping` is `runDue` without `start`: it sends due deliveries and then stops. */
  let state: "idle" | "stepping" | "started" | "stopped" = "idle";
  let pumpScheduled = false;
  /** While outcomes cannot be written, each delivery would be sent again as fast as the endpoint responds. */
  let paused = false;
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

  /** Runs once for all events of one commit. */
  function pumpSoon(schedule: (run: () => void) => unknown = queueMicrotask): void {
    if (!isSending() || pumpScheduled) return;
    pumpScheduled = true;
    schedule(() => {
      pumpScheduled = false;
      pump();
    });
  }

  function pump(): void {
    if (!isSending() || paused) return;
    const at = now();
    try {
      // Other work of the event loop runs first. Endpoints that were served wait behind those that were not.
      if (!serveAll(at, clock() + TICK_MS)) pumpSoon(setImmediate);
    } catch (err) {
      log.error({ err }, "webhooks: pending deliveries not read");
    }
    if (state === "started") setTimer(at);
  }

  /**
   * Sends one delivery per endpoint and round until no more may be sent now. Returns false when the time limit is
   * reached first.
   */
  function serveAll(at: number, endsAt: number): boolean {
    let launched = true;
    while (launched) {
      launched = false;
      for (const [endpointId, dueAt] of [...wakeAt]) {
        if (dueAt > at || !slots.isFree(endpointId)) continue;
        if (serve(endpointId, at)) launched = true;
        if (clock() >= endsAt) return false;
      }
    }
    return true;
  }

  function setTimer(at: number): void {
    cancelTimer();
    let next = at + MAX_TIMER_MS;
    // Endpoints that are due already wait for a slot and are served when one is released.
    for (const dueAt of wakeAt.values()) if (dueAt > at && dueAt < next) next = dueAt;
    cancelTimer = timers.after(next - at, pump);
  }

  /** Sends the endpoint's next delivery, or requests one from the outbox. Returns true when a delivery was sent. */
  function serve(endpointId: string, at: number): boolean {
    wakeAt.delete(endpointId);
    const pausedUntil = throttle.pausedUntil(endpointId, at);
    if (pausedUntil > at) {
      wakeAt.set(endpointId, pausedUntil);
      return false;
    }
    const endpoint = endpoints.get(endpointId);
    if (!endpoint) {
      throttle.forget(endpointId);
      return false;
    }
    const next = nextPending(endpoint);
    // Setting the time moves the endpoint to the end of the map.
    if (next) wakeAt.set(endpointId, next.dueAt);
    if (next && next.dueAt <= at) {
      launch(endpoint, next);
      return true;
    }
    if (!reader.isReading(endpointId) && !hasManyBlocked(endpoint, at)) reader.request(endpoint);
    return false;
  }

  const attemptsAt = (endpoint: EndpointRow) =>
    [...running.values()].filter(({ endpointId }) => endpointId === endpoint.id);

  /** Leaves out deliveries whose predecessor is being sent, because both could arrive in either order. */
  function nextPending(endpoint: EndpointRow): PendingDelivery | undefined {
    const sending = attemptsAt(endpoint);
    const blockedKeys = sending.flatMap(({ orderKey }) => orderKey ?? []);
    return deliveries
      .pending(endpoint.id, sending.length + 1, { forcedOnly: endpoint.status === "DISABLED", blockedKeys })
      .find(({ id }) => !running.has(id));
  }

  /** Prevents a busy call at a slow endpoint from turning the whole log into deliveries that cannot be sent yet. */
  function hasManyBlocked(endpoint: EndpointRow, at: number): boolean {
    const many = attemptsAt(endpoint).length + DELIVERIES_AHEAD;
    const waiting = deliveries.pending(endpoint.id, many, { forcedOnly: false, blockedKeys: [] });
    return waiting.filter(({ dueAt }) => dueAt <= at).length === many;
  }

  function launch(endpoint: EndpointRow, delivery: PendingDelivery): void {
    const controller = new AbortController();
    const { id, orderKey } = delivery;
    running.set(id, { endpointId: endpoint.id, orderKey, controller, done: run(endpoint, delivery, controller) });
  }

  async function run(endpoint: EndpointRow, delivery: PendingDelivery, controller: AbortController): Promise<void> {
    const release = slots.take(endpoint.id);
    throttle.started(endpoint, now());
    const onResponse = (responded: boolean) => {
      release(responded);
      throttle.ended(endpoint.id, responded, now());
      wakeNow(endpoint.id);
    };
    try {
      const nextAttemptAt = await deliver(endpoint, delivery, controller, onResponse);
      if (nextAttemptAt !== null) wake(endpoint.id, nextAttemptAt);
    } catch (err) {
      log.error({ err, deliveryId: delivery.id }, "webhooks: outcome of a delivery not saved");
      wake(endpoint.id, now());
      pause();
    }
    running.delete(delivery.id);
    // The next delivery with the same order key waits for this one.
    if (delivery.orderKey !== null) wake(endpoint.id, now());
    pumpSoon();
  }

  function pause(): void {
    if (paused) return;
    paused = true;
    timers.after(PAUSE_AFTER_WRITE_ERROR_MS, () => {
      paused = false;
      pump();
    });
  }

  async function idle(): Promise<void> {
    // Deliveries that a scheduled pass is about to send count as running.
    do {
      await Promise.all([...running.values()].map(({ done }) => done));
      // Awaiting promises alone never lets the event loop reach a pass that `setImmediate` has scheduled.
      if (pumpScheduled) await new Promise((done) => setImmediate(done));
      await reader.settled();
    } while (running.size > 0 || pumpScheduled);
  }

  function abortAll(): void {
    for (const { controller } of running.values()) controller.abort();
  }

  return {
    /** Sends due deliveries, now and whenever new events or times require it. */
    start(): void {
      state = "started";
      wakeAll();
      pump();
    },
    /** Lets running attempts end until `deadline`; those that are aborted are sent again after the restart. */
    async stop(deadline: number): Promise<void> {
      state = "stopped";
      cancelTimer();
      const cancelAbort = timers.after(Math.max(0, deadline - now()), abortAll);
      if (deadline <= now()) abortAll();
      await idle();
      cancelAbort();
    },
    /** Sends everything that is due now; resolves when no attempt is running. */
    async runDue(): Promise<void> {
      if (state === "idle") state = "stepping";
      wakeAll();
      pump();
      await idle();
      if (state === "stepping") state = "idle";
    },
  };
}
