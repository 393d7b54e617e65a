import { integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const rtcServers = sqliteTable("rtc_servers", {
  name: text("name").primaryKey(),
  region: text("region").notNull(),
  publicHost: text("public_host").notNull(),
  internalUrl: text("internal_url").notNull(),
  /** The maximum number of rooms; null without a limit. */
  capacity: integer("capacity"),
  version: text("version"),
  draining: integer("draining", { mode: "boolean" }).notNull().default(false),
  /** Figures of the last heartbeat; null until the first one after a registration. */
  activeRooms: integer("active_rooms"),
  activeParticipants: integer("active_participants"),
  cpuPercent: real("cpu_percent"),
  memoryPercent: real("memory_percent"),
  networkInBps: real("network_in_bps"),
  networkOutBps: real("network_out_bps"),
  registeredAt: integer("registered_at").notNull(),
  lastHeartbeatAt: integer("last_heartbeat_at"),
  /** The time of the registration or of the last heartbeat, whichever is later. */
  seenAt: integer("seen_at").notNull(),
});

export type ServerRow = typeof rtcServers.$inferSelect;
