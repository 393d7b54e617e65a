import { getTableColumns } from "drizzle-orm";
import { integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, filteredBy, inserter, reading, rowsOf, tenantColumns } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { ConnectionEventType, ConnectionState } from "../../../protocol/observability.ts";

export const connections = sqliteTable("rtc_connections", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  /** The connection id that the client chose. */
  connectionId: text("connection_id").notNull(),
  roomId: text("room_id"),
  roomName: text("room_name"),
  participantIdentity: text("participant_identity").notNull(),
  state: text("state").$type<ConnectionState>().notNull(),
  serverName: text("server_name"),
  sdk: text("sdk"),
  userAgent: text("user_agent"),
  ipAddress: text("ip_address"),
  reconnectCount: integer("reconnect_count").notNull().default(0),
  rttMs: real("rtt_ms"),
  jitterMs: real("jitter_ms"),
  packetLossPercent: real("packet_loss_percent"),
  joinTimeMs: integer("join_time_ms"),
  startedAt: integer("started_at").notNull(),
  connectedAt: integer("connected_at"),
  reconnectedAt: integer("reconnected_at"),
  /** The last sign of life; a connection that a crash interrupted ends at this time. */
  lastSeenAt: integer("last_seen_at").notNull(),
  disconnectedAt: integer("disconnected_at"),
  disconnectReason: text("disconnect_reason"),
});

export const connectionEvents = sqliteTable("rtc_connection_events", {
  id: integer("id").primaryKey(),
  connection: text("connection").notNull(),
  type: text("type").$type<ConnectionEventType>().notNull(),
  source: text("source").$type<"server" | "client">().notNull(),
  at: integer("at").notNull(),
  data: text("data", { mode: "json" }).$type<Record<string, unknown>>(),
});

export type ConnectionRow = typeof connections.$inferSelect;
export type ConnectionEventRow = typeof connectionEvents.$inferSelect;

type ConnectionFilter = { state?: ConnectionState; roomId?: string };
/** The position at which a page ended, in a list sorted by start and id, newest first. */
type ConnectionPosition = { startedAt: number; id: string };

export type ConnectionStore = ReturnType<typeof connectionStore>;

export function connectionStore({ $client: client }: Db) {
  const rows = rowsOf(client, connections);
  const OF_TENANT = "WHERE project_id = ? AND environment = ?";
  const listed = filteredBy((conditions) =>
    rows<(string | number)[]>(
      `${OF_TENANT} ${conditions} AND (started_at, id) < (?, ?) ORDER BY started_at DESC, id DESC LIMIT ?`,
    ),
  );
  const byId = rows<[string, string, string]>(`${OF_TENANT} AND id = ?`);
  // For a plain `started_at`, SQLite reads all connections of the tenant in that order instead of the few of one client.
  const byClient = rows<[string, string, string]>(`${OF_TENANT} AND connection_id = ? ORDER BY +started_at DESC`);
  const events = rowsOf(client, connectionEvents)<[string]>("WHERE connection = ? ORDER BY at, id");
  const addEvent = inserter<Omit<ConnectionEventRow, "id">>(client, connectionEvents);
  const closeAbandoned = changing<[]>(
    client,
    `UPDATE rtc_connections SET state = 'FAILED', disconnected_at = last_seen_at, disconnect_reason = 'restart'
       WHERE disconnected_at IS NULL`,
  );
  const old = reading<{ id: string }, [number, number]>(
    client,
    "SELECT id FROM rtc_connections WHERE started_at < ? LIMIT ?",
  );
  const remove = changing<[string]>(client, "DELETE FROM rtc_connections WHERE id = ?");

  return {
    list({ projectId, environment }: Tenant, filter: ConnectionFilter, after: ConnectionPosition, limit: number) {
      const { statement, values } = listed({ "state = ?": filter.state, "room_id = ?": filter.roomId });
      return statement.all(projectId, environment, ...values, after.startedAt, after.id, limit);
    },
    find: ({ projectId, environment }: Tenant, id: string): ConnectionRow | undefined =>
      byId.get(projectId, environment, id),
    /** Newest first: a client may have used the same connection id in several rooms. */
    findByClient: ({ projectId, environment }: Tenant, connectionId: string): ConnectionRow[] =>
      byClient.all(projectId, environment, connectionId),
    events: (connection: string): ConnectionEventRow[] => events.all(connection),

    save: inserter<ConnectionRow>(
      client,
      connections,
      `ON CONFLICT (id) DO UPDATE SET ${Object.values(getTableColumns(connections))
        .map(({ name }) => `${name} = excluded.${name}`)
        .join(", ")}`,
    ),
    addEvents(unit: Unit, added: Omit<ConnectionEventRow, "id">[]): void {
      for (const row of added) addEvent(unit, row);
    },

    /** Ends connections that a crash left open, at their last sign of life. */
    closeAbandoned: (unit: Unit) => void closeAbandoned.run(unit),

    /** Removes at most `limit` connections that started before `before`; returns true when more rows may match. */
    prune(unit: Unit, before: number, limit: number): boolean {
      const found = old.all(before, limit);
      for (const { id } of found) remove.run(unit, id);
      return found.length === limit;
    },
  };
}
