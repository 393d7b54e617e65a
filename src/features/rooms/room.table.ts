import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../kernel/db/statements.ts";

export const rooms = sqliteTable("rooms", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  name: text("name").notNull(),
  /** The region that the developer prefers for the room's media. */
  region: text("region"),
  /** Whether every call in the room is recorded. */
  record: integer("record", { mode: "boolean" }).notNull().default(false),
  /** Whether the room is being recorded now. */
  recording: integer("recording", { mode: "boolean" }).notNull().default(false),
  /** Whether only end-to-end encrypted tracks can be published. */
  encrypted: integer("encrypted", { mode: "boolean" }).notNull().default(false),
  /** Whether participants wait until a host admits them. */
  lobby: integer("lobby", { mode: "boolean" }).notNull().default(false),
  /** Whether only hosts and admitted participants may join. */
  locked: integer("locked", { mode: "boolean" }).notNull().default(false),
  captions: integer("captions", { mode: "boolean" }).notNull().default(false),
  /** The maximum number of participants; null for the limit of the server. */
  maxParticipants: integer("max_participants"),
  metadata: text("metadata"),
  /** The seconds after which the room closes if nobody has joined; null for a room that stays open. */
  emptyTimeout: integer("empty_timeout"),
  /** The seconds after which the room closes once the last participant has left. */
  departureTimeout: integer("departure_timeout").notNull().default(20),
  status: text("status").$type<"ACTIVE" | "CLOSED">().notNull().default("ACTIVE"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  closedAt: integer("closed_at"),
});

export type RoomRow = typeof rooms.$inferSelect;
