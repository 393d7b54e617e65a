import { integer, sqliteTable } from "drizzle-orm/sqlite-core";

/** Messages that are new or changed since the index looked at them. The index itself is `message_search`. */
export const searchPending = sqliteTable("search_pending", { messageId: integer("message_id").primaryKey() });
