import { and, count, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Environment, WebhookDisabledReason } from "../../../protocol/enums.ts";
import { type EndpointRow, webhookEndpoints as endpoints } from "./webhook.table.ts";

export type EndpointChange = Partial<Omit<EndpointRow, "id" | "projectId" | "environment" | "createdAt">>;

export function endpointStore(db: Db) {
  const byId = reading(() =>
    db
      .select()
      .from(endpoints)
      .where(eq(endpoints.id, sql.placeholder("id")))
      .prepare(),
  );
  const inProject = reading(() =>
    db
      .select()
      .from(endpoints)
      .where(and(eq(endpoints.id, sql.placeholder("id")), eq(endpoints.projectId, sql.placeholder("projectId"))))
      .prepare(),
  );
  const newest = (environment?: SQL) =>
    reading(() =>
      db
        .select()
        .from(endpoints)
        .where(
          and(
            eq(endpoints.projectId, sql.placeholder("projectId")),
            lt(endpoints.id, sql.placeholder("before")),
            environment,
          ),
        )
        .orderBy(desc(endpoints.id))
        .limit(sql.placeholder("limit"))
        .prepare(),
    );
  const all = newest();
  const ofEnvironment = newest(eq(endpoints.environment, sql.placeholder("environment")));

  const ofProject = reading(() =>
    db
      .select()
      .from(endpoints)
      .where(eq(endpoints.projectId, sql.placeholder("projectId")))
      .prepare(),
  );
  const counted = reading(() =>
    db
      .select({ count: count() })
      .from(endpoints)
      .where(
        and(
          eq(endpoints.projectId, sql.placeholder("projectId")),
          eq(endpoints.environment, sql.placeholder("environment")),
        ),
      )
      .prepare(),
  );
  const succeed = changing(() =>
    db
      .update(endpoints)
      .set({ consecutiveFailures: 0, failingSince: null, lastDeliveryAt: sql`${sql.placeholder("at")}` })
      .where(eq(endpoints.id, sql.placeholder("id")))
      .prepare(),
  );
  const fail = changing(() =>
    db
      .update(endpoints)
      .set({
        consecutiveFailures: sql`${sql.placeholder("failures")}`,
        failingSince: sql`coalesce(${endpoints.failingSince}, ${sql.placeholder("at")})`,
        missedSince: sql`min(coalesce(${endpoints.missedSince}, ${sql.placeholder("eventAt")}), ${sql.placeholder("eventAt")})`,
      })
      .where(eq(endpoints.id, sql.placeholder("id")))
      .prepare(),
  );

  return {
    get: (id: string): EndpointRow | undefined => byId.get({ id }),
    find: (projectId: string, id: string): EndpointRow | undefined => inProject.get({ projectId, id }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: (projectId: string, environment: Environment | undefined, before: string, limit: number): EndpointRow[] =>
      environment === undefined
        ? all.all({ projectId, before, limit })
        : ofEnvironment.all({ projectId, environment, before, limit }),
    insert: (unit: Unit, row: EndpointRow) => void run(unit, db.insert(endpoints).values(row)),
    update: (unit: Unit, id: string, change: EndpointChange) =>
      void run(unit, db.update(endpoints).set(change).where(eq(endpoints.id, id))),
    /** Its deliveries go with it. */
    delete: (unit: Unit, id: string) => void run(unit, db.delete(endpoints).where(eq(endpoints.id, id))),

    ofProject: (projectId: string): EndpointRow[] => ofProject.all({ projectId }),
    active: (): string[] =>
      db
        .select({ id: endpoints.id })
        .from(endpoints)
        .where(eq(endpoints.status, "ACTIVE"))
        .all()
        .map(({ id }) => id),

    recordSuccess: (unit: Unit, id: string, at: number) => void succeed.run(unit, { id, at }),
    /** `eventAt`: when that happened which was not delivered. */
    recordFailure: (unit: Unit, id: string, failures: number, at: number, eventAt: number) =>
      void fail.run(unit, { id, failures, at, eventAt }),
    /** What was missed up to now is on its way again. */
    recordRecovery: (unit: Unit, id: string) =>
      void run(unit, db.update(endpoints).set({ missedSince: null }).where(eq(endpoints.id, id))),
    count: (projectId: string, environment: Environment): number => counted.get({ projectId, environment })?.count ?? 0,
    disable: (unit: Unit, id: string, disabledReason: WebhookDisabledReason, updatedAt: number) =>
      void run(
        unit,
        db
          .update(endpoints)
          .set({
            status: "DISABLED",
            disabledReason,
            updatedAt,
            missedSince: sql`coalesce(${endpoints.missedSince}, ${updatedAt})`,
          })
          .where(eq(endpoints.id, id)),
      ),
  };
}

export type EndpointStore = ReturnType<typeof endpointStore>;
