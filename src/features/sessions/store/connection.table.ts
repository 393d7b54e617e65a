import { integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Environment } from "../../../protocol/enums.ts";
import type { ConnectionEventType, ConnectionState } from "../../../protocol/observability.ts";
import { projects } from "../../projects/store/project.table.ts";

export const connections = sqliteTable("rtc_connections", {
  id: text("id").primaryKey(),
  projectId: text("project_id")
    .notNull()
    .references(() => projects.id),
  environment: text("environment").$type<Environment>().notNull(),
  /** The client's own name for it. */
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
  /** The last sign of life; where a session that a crash cut short is ended. */
  lastSeenAt: integer("last_seen_at").notNull(),
  disconnectedAt: integer("disconnected_at"),
  disconnectReason: text("disconnect_reason"),
});

export const connectionEvents = sqliteTable("rtc_connection_events", {
  id: integer("id").primaryKey(),
  connection: text("connection")
    .notNull()
    .references(() => connections.id, { onDelete: "cascade" }),
  type: text("type").$type<ConnectionEventType>().notNull(),
  source: text("source").$type<"server" | "client">().notNull(),
  at: integer("at").notNull(),
  data: text("data", { mode: "json" }).$type<Record<string, unknown>>(),
});

export type ConnectionRow = typeof connections.$inferSelect;
export type ConnectionEventRow = typeof connectionEvents.$inferSelect;
