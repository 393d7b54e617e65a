import { and, eq, gt, isNull, lte, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Permissions } from "../../../protocol/room-records.ts";
import { participantPermissions } from "./participant-permission.table.ts";
import { type RtcTokenRow, rtcTokens } from "./rtc-token.table.ts";

/** Tokens, and what was changed of the permissions that they grant. */
export function rtcTokenStore(db: Db) {
  const byId = reading(() =>
    db
      .select()
      .from(rtcTokens)
      .where(eq(rtcTokens.id, sql.placeholder("id")))
      .prepare(),
  );
  const usable = reading(() =>
    db
      .select({ id: rtcTokens.id })
      .from(rtcTokens)
      .where(
        and(
          eq(rtcTokens.roomId, sql.placeholder("roomId")),
          eq(rtcTokens.participantIdentity, sql.placeholder("identity")),
          isNull(rtcTokens.revokedAt),
          gt(rtcTokens.expiresAt, sql.placeholder("at")),
        ),
      )
      .prepare(),
  );
  const insert = changing(() =>
    db
      .insert(rtcTokens)
      .values({
        id: sql.placeholder("id"),
        roomId: sql.placeholder("roomId"),
        participantIdentity: sql.placeholder("participantIdentity"),
        createdAt: sql.placeholder("createdAt"),
        expiresAt: sql.placeholder("expiresAt"),
      })
      .prepare(),
  );
  const revoke = changing(() =>
    db
      .update(rtcTokens)
      .set({ revokedAt: sql`${sql.placeholder("at")}` })
      .where(eq(rtcTokens.id, sql.placeholder("id")))
      .prepare(),
  );
  const prolong = changing(() =>
    db
      .update(rtcTokens)
      .set({ expiresAt: sql`max(${rtcTokens.expiresAt}, ${sql.placeholder("expiresAt")})` })
      .where(eq(rtcTokens.id, sql.placeholder("id")))
      .prepare(),
  );
  const expire = changing(() =>
    db
      .delete(rtcTokens)
      .where(lte(rtcTokens.expiresAt, sql.placeholder("at")))
      .prepare(),
  );
  const { roomId: room, participantIdentity: identity } = participantPermissions;
  const changed = reading(() =>
    db
      .select({ permissions: participantPermissions.permissions })
      .from(participantPermissions)
      .where(and(eq(room, sql.placeholder("roomId")), eq(identity, sql.placeholder("participantIdentity"))))
      .prepare(),
  );

  return {
    find: (id: string): RtcTokenRow | undefined => byId.get({ id }),
    /** Ids of the tokens with which this identity could still join. */
    usable: (roomId: string, identity: string, at: number): string[] =>
      usable.all({ roomId, identity, at }).map(({ id }) => id),
    insert: (unit: Unit, row: Omit<RtcTokenRow, "revokedAt">) => void insert.run(unit, row),
    revoke: (unit: Unit, id: string, at: number) => void revoke.run(unit, { id, at }),
    prolong: (unit: Unit, id: string, expiresAt: number) => void prolong.run(unit, { id, expiresAt }),
    removeExpired: (unit: Unit, at: number) => void expire.run(unit, { at }),

    changedPermissions: (roomId: string, participantIdentity: string): Partial<Permissions> | undefined =>
      changed.get({ roomId, participantIdentity })?.permissions,
    changePermissions: (unit: Unit, roomId: string, participantIdentity: string, permissions: Partial<Permissions>) =>
      void run(
        unit,
        db
          .insert(participantPermissions)
          .values({ roomId, participantIdentity, permissions })
          .onConflictDoUpdate({ target: [room, identity], set: { permissions } }),
      ),
    /** Nobody comes into the room any more. */
    forgetPermissions: (unit: Unit, roomId: string) =>
      void run(unit, db.delete(participantPermissions).where(eq(room, roomId))),
  };
}
