import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, reading, rowsOf } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Permissions } from "../../protocol/room-records.ts";

/** The minted tokens, without the tokens' own text. */
export const rtcTokens = sqliteTable("rtc_tokens", {
  id: text("id").primaryKey(),
  roomId: text("room_id").notNull(),
  participantIdentity: text("participant_identity").notNull(),
  createdAt: integer("created_at").notNull(),
  expiresAt: integer("expires_at").notNull(),
  revokedAt: integer("revoked_at"),
});

/** Permissions of an identity that were changed in a room; they override those of its tokens. */
export const participantPermissions = sqliteTable("participant_permissions", {
  roomId: text("room_id").notNull(),
  participantIdentity: text("participant_identity").notNull(),
  permissions: text("permissions", { mode: "json" }).$type<Partial<Permissions>>().notNull(),
});

type RtcTokenRow = typeof rtcTokens.$inferSelect;
export type RtcTokenStore = ReturnType<typeof rtcTokenStore>;

export function rtcTokenStore({ $client: client }: Db) {
  const byId = rowsOf(client, rtcTokens)<[string]>("WHERE id = ?");
  const usable = reading<{ id: string }, [string, string, number]>(
    client,
    `SELECT id FROM rtc_tokens
       WHERE room_id = ? AND participant_identity = ? AND revoked_at IS NULL AND expires_at > ?`,
  );
  const insert = inserter<RtcTokenRow>(client, rtcTokens);
  const revoke = changing<[number, string]>(client, "UPDATE rtc_tokens SET revoked_at = ? WHERE id = ?");
  const extend = changing<[number, string]>(
    client,
    "UPDATE rtc_tokens SET expires_at = max(expires_at, ?) WHERE id = ?",
  );
  const expire = changing<[number]>(client, "DELETE FROM rtc_tokens WHERE expires_at <= ?");
  const permissionsOf = rowsOf(
    client,
    participantPermissions,
  )<[string, string]>("WHERE room_id = ? AND participant_identity = ?");
  const changePermissions = inserter<typeof participantPermissions.$inferSelect>(
    client,
    participantPermissions,
    "ON CONFLICT (room_id, participant_identity) DO UPDATE SET permissions = excluded.permissions",
  );
  const deletePermissions = changing<[string]>(client, "DELETE FROM participant_permissions WHERE room_id = ?");

  return {
    find: (id: string) => byId.get(id),
    /** Ids of the tokens with which this identity can still join. */
    usable: (roomId: string, identity: string, at: number): string[] =>
      usable.all(roomId, identity, at).map(({ id }) => id),
    insert: (unit: Unit, row: Omit<RtcTokenRow, "revokedAt">) => void insert(unit, { ...row, revokedAt: null }),
    revoke: (unit: Unit, id: string, at: number) => void revoke.run(unit, at, id),
    extend: (unit: Unit, id: string, expiresAt: number) => void extend.run(unit, expiresAt, id),
    deleteExpired: (unit: Unit, at: number) => void expire.run(unit, at),

    changedPermissions: (roomId: string, identity: string) => permissionsOf.get(roomId, identity)?.permissions,
    changePermissions: (unit: Unit, roomId: string, identity: string, permissions: Partial<Permissions>) =>
      void changePermissions(unit, { roomId, participantIdentity: identity, permissions }),
    deletePermissions: (unit: Unit, roomId: string) => void deletePermissions.run(unit, roomId),
  };
}
