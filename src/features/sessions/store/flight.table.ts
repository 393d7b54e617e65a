import { blob, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { connections } from "./connection.table.ts";

export const flights = sqliteTable("rtc_flights", {
  id: text("id").primaryKey(),
  connection: text("connection")
    .notNull()
    .references(() => connections.id, { onDelete: "cascade" }),
  reason: text("reason").notNull(),
  takenAt: integer("taken_at").notNull(),
  dump: blob("dump").$type<Uint8Array>().notNull(),
});

export type FlightRow = typeof flights.$inferSelect;
