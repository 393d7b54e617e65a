import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { DAY_MS, iso } from "../../../kernel/time/clock.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { type ConnectionEventRow, type ConnectionRow, connectionStore } from "./connection.store.ts";
import { createConnectionRecorder } from "./connection-recorder.ts";
import type { ConnectionKey } from "./connection-update.ts";
import { type ClassifiedErrorRow, errorStore } from "./error.store.ts";
import { explain } from "./error-rules.ts";
import { createFlightRecords, type FlightRecordDeps } from "./flight-records.ts";

const PRUNED_PER_UNIT = 200;
/** The error that ended a connection is classified shortly after. */
const CLASSIFIED_WITHIN_MS = 1_000;

export type Connections = ReturnType<typeof createConnections>;

/** The records of connections: their events, errors and flight records. */
export function createConnections(runtime: Runtime, { findNode }: Pick<FlightRecordDeps, "findNode">) {
  const { config, db, now, write } = runtime;
  const store = connectionStore(db);
  const errorsStore = errorStore(db);
  const recorder = createConnectionRecorder(runtime, { connections: store, errors: errorsStore });

  /** Finds a connection by the record's id or by the client's connection id. */
  const findAny = (tenant: Tenant, reference: string): ConnectionRow | undefined =>
    store.find(tenant, reference) ?? store.findByClient(tenant, reference)[0];

  function find(tenant: Tenant, reference: string): ConnectionRow {
    const row = findAny(tenant, reference);
    if (!row) throw new ApiError("SVC_CONNECTION_NOT_FOUND");
    return row;
  }

  const connectionOf = (tenant: Tenant, { connection }: ClassifiedErrorRow): ConnectionRow | undefined =>
    connection === null ? undefined : store.find(tenant, connection);

  const present = (row: ConnectionRow) => presentConnection(row, now());

  return {
    recorder,
    flightRecords: createFlightRecords(runtime, { recorder, find, findNode }),
    list: store.list,
    present,

    /** The events and errors of one participant's connection in a span of time. */
    history({ projectId, environment, ...key }: Tenant & ConnectionKey, from: number, until: number) {
      const row = store
        .findByClient({ projectId, environment }, key.connectionId)
        .find((one) => one.roomId === key.roomId && one.participantIdentity === key.identity);
      if (!row) return { events: [], errors: [] };
      return {
        events: store.events(row.id).filter(({ at }) => at >= from && at <= until),
        errors: errorsStore
          .ofConnection(row.id)
          .filter(({ occurredAt }) => occurredAt >= from && occurredAt <= until + CLASSIFIED_WITHIN_MS),
      };
    },

    /** The connection with its timeline and errors. */
    detail(tenant: Tenant, reference: string) {
      const row = find(tenant, reference);
      return {
        ...present(row),
        events: store.events(row.id).map(presentEvent),
        errors: errorsStore.ofConnection(row.id).map((error) => presentError(error, row.connectionId)),
      };
    },

    errors: {
      list: errorsStore.list,
      /** Newest first; a connection has few errors. */
      ofConnection(tenant: Tenant, reference: string): ClassifiedErrorRow[] {
        const row = findAny(tenant, reference);
        return row ? errorsStore.ofConnection(row.id).reverse() : [];
      },
      present: (tenant: Tenant, row: ClassifiedErrorRow) =>
        presentError(row, connectionOf(tenant, row)?.connectionId ?? null),
      detail(tenant: Tenant, id: string) {
        const row = errorsStore.find(tenant, id);
        if (!row) throw new ApiError("SVC_ERROR_NOT_FOUND");
        const connection = connectionOf(tenant, row);
        return {
          ...presentError(row, connection?.connectionId ?? null),
          connection: connection ? present(connection) : null,
        };
      },
    },

    /** Removes records past their retention, a few at a time, so that no other write waits for long. */
    async prune(): Promise<void> {
      if (config.CONNECTION_RETENTION_DAYS === 0) return;
      const before = now() - config.CONNECTION_RETENTION_DAYS * DAY_MS;
      while (await write((unit) => store.prune(unit, before, PRUNED_PER_UNIT)));
      while (await write((unit) => errorsStore.prune(unit, before, PRUNED_PER_UNIT)));
    },
  };
}

/** Unknown figures are null, never 0. */
function presentConnection(row: ConnectionRow, now: number) {
  const end = row.disconnectedAt ?? now;
  return {
    id: row.id,
    connectionId: row.connectionId,
    state: row.state,
    roomId: row.roomId,
    roomName: row.roomName,
    participantIdentity: row.participantIdentity,
    serverName: row.serverName,
    sdk: row.sdk,
    userAgent: row.userAgent,
    ipAddress: row.ipAddress,
    reconnectCount: row.reconnectCount,
    rttMs: row.rttMs,
    jitterMs: row.jitterMs,
    packetLossPercent: row.packetLossPercent,
    joinTimeMs: row.joinTimeMs,
    startedAt: iso(row.startedAt),
    connectedAt: iso(row.connectedAt),
    disconnectedAt: iso(row.disconnectedAt),
    durationMs: row.connectedAt === null ? null : Math.max(0, end - row.connectedAt),
    disconnectReason: row.disconnectReason,
  };
}

function presentEvent({ type, source, at, data }: ConnectionEventRow) {
  return { type, source, timestamp: iso(at), data };
}

function presentError(row: ClassifiedErrorRow, connectionId: string | null) {
  return {
    id: row.id,
    category: row.category,
    code: row.code,
    message: row.message,
    ...explain(row.category, row.code),
    connectionId,
    roomId: row.roomId,
    occurredAt: iso(row.occurredAt),
  };
}
