import { and, eq, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import { reading, run } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Permissions } from "../../protocol/room-records.ts";
import { participantPermissions } from "./participant-permission.table.ts";

export function participantPermissionStore(db: Db) {
  const { roomId: room, participantIdentity: identity } = participantPermissions;
  const byIdentity = reading(() =>
    db
      .select({ permissions: participantPermissions.permissions })
      .from(participantPermissions)
      .where(and(eq(room, sql.placeholder("roomId")), eq(identity, sql.placeholder("participantIdentity"))))
      .prepare(),
  );

  return {
    find: (roomId: string, participantIdentity: string): Partial<Permissions> | undefined =>
      byIdentity.get({ roomId, participantIdentity })?.permissions,
    set: (unit: Unit, roomId: string, participantIdentity: string, permissions: Partial<Permissions>) =>
      void run(
        unit,
        db
          .insert(participantPermissions)
          .values({ roomId, participantIdentity, permissions })
          .onConflictDoUpdate({ target: [room, identity], set: { permissions } }),
      ),
    removeRoom: (unit: Unit, roomId: string) =>
      void run(unit, db.delete(participantPermissions).where(eq(room, roomId))),
  };
}
