import type { Environment } from "../protocol/enums.ts";
import type { Runtime } from "../runtime.ts";
import type { EndpointStore } from "./store/endpoint.store.ts";
import type { EndpointRow } from "./store/webhook.table.ts";

type EventKey = { projectId: string; environment: Environment; type: string };

/** Who wants which event. Asked for every message of the chat, so the endpoints stay in memory until one changes. */
export type Subscribers = {
  /** Whether anyone does, disabled endpoints included: those may recover it later. */
  isWanted(event: EventKey): boolean;
  /** Ids of the active endpoints that do. */
  active(event: EventKey): string[];
};

export function createSubscribers({ bus }: Runtime, endpoints: EndpointStore): Subscribers {
  const known = new Map<string, EndpointRow[]>();
  bus.on("webhookChanged", ({ projectId }) => void known.delete(projectId));
  bus.on("changedElsewhere", () => known.clear());

  function of({ projectId, environment, type }: EventKey): EndpointRow[] {
    const rows = known.get(projectId) ?? endpoints.ofProject(projectId);
    known.set(projectId, rows);
    return rows.filter(
      (row) => row.environment === environment && (row.events.length === 0 || (row.events as string[]).includes(type)),
    );
  }

  return {
    isWanted: (event) => of(event).length > 0,
    active: (event) => of(event).flatMap(({ id, status }) => (status === "ACTIVE" ? [id] : [])),
  };
}
