import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { rooms } from "../../../features/rooms/room.table.ts";

/** Which agents rooms are to have, and who of them was there. */
export const agentDispatches = sqliteTable(
  "agent_dispatches",
  {
    id: text("id").primaryKey(),
    roomId: text("room_id")
      .notNull()
      .references(() => rooms.id),
    agentName: text("agent_name").notNull(),
    metadata: text("metadata").notNull(),
    attributes: text("attributes", { mode: "json" }).$type<Record<string, string>>().notNull(),
    /** Agents without a name do not come beside it. */
    alone: integer("alone", { mode: "boolean" }).notNull(),
    createdAt: integer("created_at").notNull(),
    /** The agent that works for the whole room, once there is one. */
    jobId: text("job_id"),
    agentIdentity: text("agent_identity"),
    jobEnded: integer("job_ended", { mode: "boolean" }).notNull(),
  },
  (table) => [index("agent_dispatches_by_room").on(table.roomId)],
);

export type DispatchRow = typeof agentDispatches.$inferSelect;
