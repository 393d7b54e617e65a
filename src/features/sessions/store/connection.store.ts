import { and, asc, eq, getTableColumns, isNull, lt, or, type SQL, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { ConnectionState } from "../../../protocol/observability.ts";
import { type ConnectionEventRow, type ConnectionRow, connectionEvents, connections } from "./connection.table.ts";

type ConnectionFilter = Tenant & { state?: ConnectionState; roomId?: string };
/** Where a page ended: newest first, by start and then by id. */
export type After = { startedAt: number; id: string };

/** Every column from what the statement is run with, by its name. */
const given = <Row>(columns: object): Row =>
  Object.fromEntries(Object.keys(columns).map((property) => [property, sql.placeholder(property)])) as Row;

export type ConnectionStore = ReturnType<typeof connectionStore>;

export function connectionStore(db: Db) {
  const { placeholder } = sql;
  const ofTenant = [
    eq(connections.projectId, placeholder("projectId")),
    eq(connections.environment, placeholder("environment")),
  ];
  const list = (...more: SQL[]) =>
    reading(() =>
      db
        .select()
        .from(connections)
        .where(
          and(
            ...ofTenant,
            ...more,
            sql`(${connections.startedAt}, ${connections.id}) < (${placeholder("startedAt")}, ${placeholder("after")})`,
          ),
        )
        .orderBy(sql`${connections.startedAt} DESC, ${connections.id} DESC`)
        .limit(placeholder("limit"))
        .prepare(),
    );
  const { id: _, ...eventColumns } = getTableColumns(connectionEvents);
  const addEvent = changing(() =>
    db.insert(connectionEvents).values(given<ConnectionEventRow>(eventColumns)).prepare(),
  );
  const columns = getTableColumns(connections);
  const save = changing(() =>
    db
      .insert(connections)
      .values(given<ConnectionRow>(columns))
      .onConflictDoUpdate({
        target: connections.id,
        set: Object.fromEntries(
          Object.entries(columns).map(([property, { name }]) => [property, sql.raw(`excluded."${name}"`)]),
        ),
      })
      .prepare(),
  );
  const byState = eq(connections.state, placeholder("state"));
  const byRoom = eq(connections.roomId, placeholder("roomId"));
  // One statement per filter: a condition that may be absent keeps SQLite from using the right index.
  const lists = { plain: list(), state: list(byState), room: list(byRoom), both: list(byState, byRoom) };

  const byId = reading(() =>
    db
      .select()
      .from(connections)
      .where(and(...ofTenant, eq(connections.id, placeholder("id"))))
      .prepare(),
  );
  const byClient = reading(() =>
    db
      .select()
      .from(connections)
      .where(and(...ofTenant, eq(connections.connectionId, placeholder("connectionId"))))
      .orderBy(sql`${connections.startedAt} DESC`)
      .prepare(),
  );
  const events = reading(() =>
    db
      .select()
      .from(connectionEvents)
      .where(eq(connectionEvents.connection, placeholder("connection")))
      .orderBy(asc(connectionEvents.at), asc(connectionEvents.id))
      .prepare(),
  );
  const old = reading(() =>
    db
      .select({ id: connections.id })
      .from(connections)
      .where(lt(connections.startedAt, placeholder("before")))
      .limit(placeholder("limit"))
      .prepare(),
  );

  return {
    list({ projectId, environment, state, roomId }: ConnectionFilter, after: After, limit: number): ConnectionRow[] {
      const statement = lists[state ? (roomId ? "both" : "state") : roomId ? "room" : "plain"];
      const { startedAt, id } = after;
      return statement.all({ projectId, environment, state, roomId, startedAt, after: id, limit });
    },
    find: (tenant: Tenant, id: string): ConnectionRow | undefined => byId.get({ ...tenant, id }),
    /** Newest first: a client may have used the same name in several rooms. */
    findByClient: (tenant: Tenant, connectionId: string): ConnectionRow[] => byClient.all({ ...tenant, connectionId }),
    events: (connection: string): ConnectionEventRow[] => events.all({ connection }),

    save: (unit: Unit, row: ConnectionRow) => void save.run(unit, row),
    addEvents(unit: Unit, rows: Omit<ConnectionEventRow, "id">[]): void {
      for (const row of rows) addEvent.run(unit, row);
    },

    /** What a crash left open ends at its last sign of life. */
    closeAbandoned: (unit: Unit) =>
      void run(
        unit,
        db
          .update(connections)
          .set({ state: "FAILED", disconnectedAt: sql`${connections.lastSeenAt}`, disconnectReason: "restart" })
          .where(isNull(connections.disconnectedAt)),
      ),

    /** Removes at most `limit` that started before; true when there may be more. */
    prune(unit: Unit, before: number, limit: number): boolean {
      const ids = old.all({ before, limit }).map(({ id }) => id);
      if (ids.length > 0) run(unit, db.delete(connections).where(or(...ids.map((id) => eq(connections.id, id)))));
      return ids.length === limit;
    },
  };
}
