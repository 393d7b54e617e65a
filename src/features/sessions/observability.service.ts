import type { PageAsked } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { ConnectionState, ErrorCategory } from "../../protocol/observability.ts";
import { createActivity } from "./activity.ts";
import { showConnection, showError, showEvent } from "./connection.show.ts";
import { createFlights, type FlightDeps } from "./flights.ts";
import { createRecorder } from "./recorder.ts";
import { seriesReader } from "./series.ts";
import { metricsReader } from "./session-metrics.ts";
import { connectionStore } from "./store/connection.store.ts";
import type { ConnectionRow } from "./store/connection.table.ts";
import { errorStore } from "./store/error.store.ts";
import type { ClassifiedErrorRow } from "./store/error.table.ts";
import { figureStore } from "./store/figure.store.ts";
import type { Owner } from "./story.ts";

export type ConnectionsAsked = PageAsked & { state?: ConnectionState; roomId?: string };
export type ErrorsAsked = PageAsked & { category?: ErrorCategory; connectionId?: string };

const PRUNED_AT_ONCE = 200;
const DAY_MS = 86_400_000;
/** What ended a connection is classified a moment later. */
const BLAMED_WITHIN_MS = 1_000;

export type ObservabilityService = ReturnType<typeof observabilityService>;

/** What happened to connections, and why. */
export function observabilityService(runtime: Runtime, { findNode }: Pick<FlightDeps, "findNode">) {
  const { config, db, now, write } = runtime;
  const stores = { connections: connectionStore(db), errors: errorStore(db) };
  const recorder = createRecorder(runtime, stores);
  const activity = createActivity(runtime);
  const figures = figureStore(db);

  /** By the record's id, or by the client's own name for it. */
  function find(tenant: Tenant, reference: string): ConnectionRow {
    const row = stores.connections.find(tenant, reference) ?? stores.connections.findByClient(tenant, reference)[0];
    if (!row) throw new ApiError("SVC_CONNECTION_NOT_FOUND");
    return row;
  }

  const clientName = (tenant: Tenant, { connection }: ClassifiedErrorRow) =>
    connection === null ? null : (stores.connections.find(tenant, connection)?.connectionId ?? null);

  return {
    recorder,
    activity,
    flights: createFlights(runtime, { recorder, find, findNode }),
    metrics: metricsReader(figures, now),
    series: seriesReader(figures, now, activity),

    connections: {
      list: stores.connections.list,
      show: (row: ConnectionRow) => showConnection(row, now()),
      /** What is on record of one participant's connection in a span of time. */
      happened({ projectId, environment, ...owner }: Tenant & Owner, from: number, until: number) {
        const row = stores.connections
          .findByClient({ projectId, environment }, owner.connectionId)
          .find((one) => one.roomId === owner.roomId && one.participantIdentity === owner.identity);
        if (!row) return { events: [], errors: [] };
        return {
          events: stores.connections.events(row.id).filter(({ at }) => at >= from && at <= until),
          errors: stores.errors
            .ofConnection(row.id)
            .filter(({ occurredAt }) => occurredAt >= from && occurredAt <= until + BLAMED_WITHIN_MS),
        };
      },
      /** With its timeline and what went wrong. */
      detail(tenant: Tenant, reference: string) {
        const row = find(tenant, reference);
        return {
          ...showConnection(row, now()),
          events: stores.connections.events(row.id).map(showEvent),
          errors: stores.errors.ofConnection(row.id).map((error) => showError(error, row.connectionId)),
        };
      },
    },

    errors: {
      list: stores.errors.list,
      /** Of one connection, which is few: newest first, like the list. */
      ofConnection(tenant: Tenant, reference: string): ClassifiedErrorRow[] {
        const row = stores.connections.find(tenant, reference) ?? stores.connections.findByClient(tenant, reference)[0];
        return row ? stores.errors.ofConnection(row.id).reverse() : [];
      },
      show: (tenant: Tenant, row: ClassifiedErrorRow) => showError(row, clientName(tenant, row)),
      detail(tenant: Tenant, id: string) {
        const row = stores.errors.find(tenant, id);
        if (!row) throw new ApiError("SVC_ERROR_NOT_FOUND");
        const connection = row.connection === null ? undefined : stores.connections.find(tenant, row.connection);
        return {
          ...showError(row, connection?.connectionId ?? null),
          connection: connection ? showConnection(connection, now()) : null,
        };
      },
    },

    /** Past its retention, a few at a time, so that no write waits for it. */
    async prune(): Promise<void> {
      if (config.CONNECTION_RETENTION_DAYS === 0) return;
      const before = now() - config.CONNECTION_RETENTION_DAYS * DAY_MS;
      while (await write((unit) => stores.connections.prune(unit, before, PRUNED_AT_ONCE)));
      while (await write((unit) => stores.errors.prune(unit, before, PRUNED_AT_ONCE)));
    },
  };
}
