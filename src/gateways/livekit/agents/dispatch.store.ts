import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { rooms } from "../../../features/rooms/room.table.ts";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, inserter, rowsOf } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";

/** The dispatches of rooms, which outlive a restart. */
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
    /** Unnamed agents do not join the room in addition. */
    alone: integer("alone", { mode: "boolean" }).notNull(),
    createdAt: integer("created_at").notNull(),
    /** The job for the whole room, once a worker has accepted it. */
    jobId: text("job_id"),
    agentIdentity: text("agent_identity"),
    jobEnded: integer("job_ended", { mode: "boolean" }).notNull(),
  },
  (table) => [index("agent_dispatches_by_room").on(table.roomId)],
);

export type DispatchRow = typeof agentDispatches.$inferSelect;

export function dispatchStore({ $client: client }: Db) {
  const inOrder = rowsOf(client, agentDispatches)<[]>("ORDER BY created_at, id");
  const save = inserter<DispatchRow>(
    client,
    agentDispatches,
    `ON CONFLICT (id) DO UPDATE SET job_id = excluded.job_id, agent_identity = excluded.agent_identity,
       job_ended = excluded.job_ended`,
  );
  const remove = changing<[string]>(client, "DELETE FROM agent_dispatches WHERE id = ?");
  return {
    all: (): DispatchRow[] => inOrder.all(),
    save: (unit: Unit, row: DispatchRow) => void save(unit, row),
    remove: (unit: Unit, dispatchId: string) => void remove.run(unit, dispatchId),
  };
}
