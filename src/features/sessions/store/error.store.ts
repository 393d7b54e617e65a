import { and, eq, inArray, lt, type SQL, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { ErrorCategory } from "../../../protocol/observability.ts";
import { type ClassifiedErrorRow, classifiedErrors } from "./error.table.ts";

type ErrorFilter = Tenant & { category?: ErrorCategory; connections?: string[] };
type ErrorAfter = { occurredAt: number; id: string };

export type ErrorStore = ReturnType<typeof errorStore>;

export function errorStore(db: Db) {
  const { placeholder } = sql;
  const ofTenant = [
    eq(classifiedErrors.projectId, placeholder("projectId")),
    eq(classifiedErrors.environment, placeholder("environment")),
  ];
  const list = (...more: SQL[]) =>
    reading(() =>
      db
        .select()
        .from(classifiedErrors)
        .where(
          and(
            ...ofTenant,
            ...more,
            sql`(${classifiedErrors.occurredAt}, ${classifiedErrors.id}) < (${placeholder("occurredAt")}, ${placeholder("after")})`,
          ),
        )
        .orderBy(sql`${classifiedErrors.occurredAt} DESC, ${classifiedErrors.id} DESC`)
        .limit(placeholder("limit"))
        .prepare(),
    );
  const byCategory = eq(classifiedErrors.category, placeholder("category"));
  const lists = { plain: list(), category: list(byCategory) };
  const byId = reading(() =>
    db
      .select()
      .from(classifiedErrors)
      .where(and(...ofTenant, eq(classifiedErrors.id, placeholder("id"))))
      .prepare(),
  );
  const ofConnection = reading(() =>
    db
      .select()
      .from(classifiedErrors)
      .where(eq(classifiedErrors.connection, placeholder("connection")))
      .orderBy(classifiedErrors.occurredAt)
      .prepare(),
  );

  return {
    list({ projectId, environment, category }: ErrorFilter, after: ErrorAfter, limit: number): ClassifiedErrorRow[] {
      const { occurredAt, id } = after;
      const values = { projectId, environment, category, occurredAt, after: id, limit };
      return category ? lists.category.all(values) : lists.plain.all(values);
    },
    find: (tenant: Tenant, id: string): ClassifiedErrorRow | undefined => byId.get({ ...tenant, id }),
    ofConnection: (connection: string): ClassifiedErrorRow[] => ofConnection.all({ connection }),
    insert: (unit: Unit, row: ClassifiedErrorRow) => void run(unit, db.insert(classifiedErrors).values(row)),
    prune(unit: Unit, before: number, limit: number): boolean {
      const ids = db
        .select({ id: classifiedErrors.id })
        .from(classifiedErrors)
        .where(lt(classifiedErrors.occurredAt, before))
        .limit(limit)
        .all()
        .map(({ id }) => id);
      if (ids.length > 0) run(unit, db.delete(classifiedErrors).where(inArray(classifiedErrors.id, ids)));
      return ids.length === limit;
    },
  };
}
