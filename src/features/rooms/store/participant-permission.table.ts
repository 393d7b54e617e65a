import { primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Permissions } from "../../../protocol/room-records.ts";
import { rooms } from "./room.table.ts";

/** What was changed of an identity's permissions in a room; it outweighs what any of its tokens says. */
export const participantPermissions = sqliteTable(
  "participant_permissions",
  {
    roomId: text("room_id")
      .notNull()
      .references(() => rooms.id),
    participantIdentity: text("participant_identity").notNull(),
    permissions: text("permissions", { mode: "json" }).$type<Partial<Permissions>>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.roomId, table.participantIdentity] })],
);
