import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow, PeriodRow } from "./store/webhook.table.ts";

/** Deliveries made ahead for one endpoint. */
export const AHEAD = 8;
/** Nobody's commit waits for more than so many at once. */
const ENDPOINTS_PER_UNIT = 4;

/** Makes events of the log into deliveries, a few ahead of what an endpoint can take. */
type DispatchOrder = {
  /** Sees to it that the next events become deliveries, if there are any; `onReady` is told when they are on disk. */
  request(endpoint: EndpointRow): void;
  isUnderWay(endpointId: string): boolean;
  /** Resolves when nothing is under way. */
  settled(): Promise<void>;
};

export function createDispatchOrder(
  { ids, log, now, write }: Runtime,
  { endpoints, events, periods, deliveries }: WebhookStores,
  onReady: (endpointId: string) => void,
): DispatchOrder {
  const requested = new Set<string>();
  let working: Promise<void> | null = null;

  const read = (endpoint: EndpointRow, { position, endSeq }: PeriodRow, limit: number) =>
    events.read(endpoint, position, endSeq ?? Number.MAX_SAFE_INTEGER, limit);

  const hasNext = (endpoint: EndpointRow) =>
    endpoint.status === "ACTIVE" && periods.of(endpoint.id).some((period) => read(endpoint, period, 1).length > 0);

  /** A delivery exists exactly when the endpoint's position is past its event. */
  function makeDeliveries(unit: Unit, endpointId: string): void {
    const endpoint = endpoints.get(endpointId);
    if (endpoint?.status !== "ACTIVE") return;
    let wanted = AHEAD;
    for (const period of periods.of(endpointId)) {
      const found = read(endpoint, period, wanted);
      for (const { id: eventId } of found) {
        deliveries.insert(unit, { id: ids.uuid(), endpointId, eventId, forced: false, at: now() });
      }
      const last = found.at(-1);
      if (last) periods.move(unit, period, last.seq);
      wanted -= found.length;
      if (wanted === 0) return;
      // Read to its end: a closed stretch is over, and the rest of the open one was not for this endpoint.
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
        log.error({ err }, "webhook events stay in the outbox");
      }
      for (const endpointId of batch) requested.delete(endpointId);
      batch.forEach(onReady);
    }
    working = null;
  }

  return {
    request(endpoint) {
      if (!hasNext(endpoint)) return;
      requested.add(endpoint.id);
      working ??= work();
    },
    isUnderWay: (endpointId) => requested.has(endpointId),
    settled: async () => {
      while (working) await working;
    },
  };
}
