import { and, asc, eq, isNull, type SQL, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import { reading, run } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import {
  type HostRow,
  liveStreamHosts as hosts,
  type ViewerRow,
  liveStreamViewers as viewers,
} from "./live-stream.table.ts";

/** Who hosts a stream, and who was told of as its viewer. */
export function peopleStore(db: Db) {
  const host = reading(() =>
    db
      .select()
      .from(hosts)
      .where(
        and(
          eq(hosts.streamId, sql.placeholder("streamId")),
          eq(hosts.identity, sql.placeholder("identity")),
          isNull(hosts.removedAt),
        ),
      )
      .prepare(),
  );
  const registered = reading(() =>
    db
      .select()
      .from(hosts)
      .where(and(eq(hosts.streamId, sql.placeholder("streamId")), isNull(hosts.removedAt)))
      .orderBy(asc(hosts.addedAt), asc(hosts.identity))
      .prepare(),
  );
  const viewer = reading(() =>
    db
      .select()
      .from(viewers)
      .where(and(eq(viewers.streamId, sql.placeholder("streamId")), eq(viewers.identity, sql.placeholder("identity"))))
      .prepare(),
  );
  const excluded = (column: string): SQL => sql.raw(`excluded.${column}`);

  return {
    findHost: (streamId: string, identity: string): HostRow | undefined => host.get({ streamId, identity }),
    /** First registered first. */
    hosts: (streamId: string): HostRow[] => registered.all({ streamId }),
    /** Registers, also one who was removed before. */
    saveHost: (unit: Unit, row: HostRow) =>
      void run(
        unit,
        db
          .insert(hosts)
          .values(row)
          .onConflictDoUpdate({
            target: [hosts.streamId, hosts.identity],
            set: {
              role: excluded("role"),
              chatTokens: excluded("chat_tokens"),
              addedAt: excluded("added_at"),
              removedAt: excluded("removed_at"),
            },
          }),
      ),

    findViewer: (streamId: string, identity: string): ViewerRow | undefined => viewer.get({ streamId, identity }),
    saveViewer: (unit: Unit, row: ViewerRow) =>
      void run(
        unit,
        db
          .insert(viewers)
          .values(row)
          .onConflictDoUpdate({
            target: [viewers.streamId, viewers.identity],
            set: { joinedAt: excluded("joined_at"), leftAt: excluded("left_at") },
          }),
      ),
  };
}

export type PeopleStore = ReturnType<typeof peopleStore>;
