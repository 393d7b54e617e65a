import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Environment } from "../../protocol/enums.ts";
import { projects } from "../projects/project.table.ts";

export const usageSessions = sqliteTable("usage_sessions", {
  id: text("id").primaryKey(),
  projectId: text("project_id")
    .notNull()
    .references(() => projects.id),
  environment: text("environment").$type<Environment>().notNull(),
  roomId: text("room_id").notNull(),
  roomName: text("room_name").notNull(),
  participantIdentity: text("participant_identity").notNull(),
  /** Media flows from here. */
  startedAt: integer("started_at").notNull(),
  lastSeenAt: integer("last_seen_at").notNull(),
  endedAt: integer("ended_at"),
});

export const usageDays = sqliteTable(
  "usage_days",
  {
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    date: text("date").notNull(),
    minutes: integer("minutes").notNull(),
    sessions: integer("sessions").notNull(),
    recordedMinutes: integer("recorded_minutes").notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.projectId, table.date] })],
);

export type UsageSessionRow = typeof usageSessions.$inferSelect;
export type UsageDayRow = typeof usageDays.$inferSelect;
