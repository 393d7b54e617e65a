import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Environment } from "../../protocol/enums.ts";
import type { Quality } from "../../protocol/room-records.ts";
import { projects } from "../projects/store/project.table.ts";

export const calls = sqliteTable(
  "calls",
  {
    id: text("id").primaryKey(),
    publicId: text("public_id").notNull().unique(),
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    environment: text("environment").$type<Environment>().notNull(),
    roomId: text("room_id").notNull(),
    roomName: text("room_name").notNull(),
    startedAt: integer("started_at").notNull(),
    lastSeenAt: integer("last_seen_at").notNull(),
    endedAt: integer("ended_at"),
    participantCount: integer("participant_count").notNull(),
    peakParticipants: integer("peak_participants").notNull(),
  },
  (table) => [index("calls_newest").on(table.projectId, table.environment, table.startedAt, table.id)],
);

export const callParticipants = sqliteTable(
  "call_participants",
  {
    callId: text("call_id")
      .notNull()
      .references(() => calls.id, { onDelete: "cascade" }),
    sessionId: text("session_id").notNull(),
    identity: text("identity").notNull(),
    connectionId: text("connection_id").notNull(),
    joinedAt: integer("joined_at").notNull(),
    leftAt: integer("left_at"),
    leaveReason: text("leave_reason"),
    quality: text("quality").$type<Quality>(),
    /** JSON of what went wrong, once there is something to say. */
    verdict: text("verdict"),
  },
  (table) => [primaryKey({ columns: [table.callId, table.sessionId] })],
);

export type CallRow = typeof calls.$inferSelect;
export type CallParticipantRow = typeof callParticipants.$inferSelect;
