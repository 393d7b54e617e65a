import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { rooms } from "./room.table.ts";

/** That a token was minted, until when it counts, and whether it was revoked; never the token itself. */
export const rtcTokens = sqliteTable(
  "rtc_tokens",
  {
    id: text("id").primaryKey(),
    roomId: text("room_id")
      .notNull()
      .references(() => rooms.id),
    participantIdentity: text("participant_identity").notNull(),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    revokedAt: integer("revoked_at"),
  },
  (table) => [
    index("rtc_tokens_by_identity").on(table.roomId, table.participantIdentity),
    index("rtc_tokens_by_expiry").on(table.expiresAt),
  ],
);

export type RtcTokenRow = typeof rtcTokens.$inferSelect;
