import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow, PeriodRow } from "./store/webhook.table.ts";

/** Number of deliveries that are created ahead for one endpoint. */
export const DELIVERIES_AHEAD = 8;
/** Limits how long other commits wait for one unit of work. */
const ENDPOINTS_PER_UNIT = 4;

/** Turns events of the outbox into deliveries, a few ahead of what an endpoint can receive. */
export function createOutboxReader(
  { ids, log, now, write }: Runtime,
  { endpoints, events, periods, deliveries }: WebhookStores,
  onReady: (endpointId: string) => void,
) {
  const requested = new Set<string>();
  let working: Promise<void> | null = null;

  const read = (endpoint: EndpointRow, { position, endSeq }: PeriodRow, limit: number) =>
    events.read(endpoint, position, endSeq ?? Number.MAX_SAFE_INTEGER, limit);

  const hasNext = (endpoint: EndpointRow) =>
    endpoint.status === "ACTIVE" && periods.of(endpoint.id).some((period) => read(endpoint, period, 1).length > 0);

  /** An event has a delivery exactly when the endpoint's position is past it. */
  function makeDeliveries(unit: Unit, endpointId: string): void {
    const endpoint = endpoints.get(endpointId);
    if (endpoint?.status !== "ACTIVE") return;
    let wanted = DELIVERIES_AHEAD;
    for (const period of periods.of(endpointId)) {
      const found = read(endpoint, period, wanted);
      for (const { id: eventId } of found) {
        deliveries.insert(unit, { id: ids.uuid(), endpointId, eventId, forced: false, at: now() });
      }
      const last = found.at(-1);
      if (last) periods.move(unit, period, last.seq);
      wanted -= found.length;
      if (wanted === 0) return;
      // The period has been read to its end: a closed period is over, and the endpoint gets no more events of the open
      // one.
      if (period.endSeq !== null) periods.remove(unit, period);
      else periods.move(unit, period, events.lastSeq());
    }
  }

  async function work(): Promise<void> {
    while (requested.size > 0) {
      const batch = [...requested].slice(0, ENDPOINTS_PER_UNIT);
      try {
        await write((unit) => {
          for (const endpointId of batch) makeDeliveries(unit, endpointId);
        });
      } catch (err) {
        log.error({ err }, "webhooks: deliveries not created from the outbox");
      }
      for (const endpointId of batch) requested.delete(endpointId);
      batch.forEach(onReady);
    }
    working = null;
  }

  return {
    /** Turns the next events into deliveries, if there are any, and calls `onReady` when they are on disk. */
    request(endpoint: EndpointRow): void {
      if (!hasNext(endpoint)) return;
      requested.add(endpoint.id);
      working ??= work();
    },
    isReading: (endpointId: string) => requested.has(endpointId),
    settled: async (): Promise<void> => {
      while (working) await working;
    },
  };
}
