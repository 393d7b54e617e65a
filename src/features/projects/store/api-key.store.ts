import { and, desc, eq, isNull, lt, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Environment } from "../../../protocol/enums.ts";
import { type ApiKeyRow, apiKeys } from "./api-key.table.ts";
import { projects } from "./project.table.ts";

export function apiKeyStore(db: Db) {
  const usable = reading(() =>
    db
      .select({ key: apiKeys })
      .from(apiKeys)
      .innerJoin(projects, eq(projects.id, apiKeys.projectId))
      .where(
        and(
          eq(apiKeys.publicId, sql.placeholder("publicId")),
          isNull(apiKeys.revokedAt),
          eq(projects.status, "ACTIVE"),
        ),
      )
      .prepare(),
  );
  const byId = reading(() =>
    db
      .select()
      .from(apiKeys)
      .where(and(eq(apiKeys.id, sql.placeholder("id")), eq(apiKeys.projectId, sql.placeholder("projectId"))))
      .prepare(),
  );
  const newest = reading(() =>
    db
      .select()
      .from(apiKeys)
      .where(
        and(
          eq(apiKeys.projectId, sql.placeholder("projectId")),
          lt(apiKeys.id, sql.placeholder("before")),
          sql`(${sql.placeholder("environment")} IS NULL OR ${apiKeys.environment} = ${sql.placeholder("environment")})`,
        ),
      )
      .orderBy(desc(apiKeys.id))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );
  const touch = changing(() =>
    db
      .update(apiKeys)
      .set({ lastUsedAt: sql`${sql.placeholder("at")}` })
      .where(eq(apiKeys.id, sql.placeholder("id")))
      .prepare(),
  );

  return {
    /** Not revoked, and of a project that is not archived. */
    findUsable: (publicId: string): ApiKeyRow | undefined => usable.get({ publicId })?.key,
    find: (projectId: string, id: string): ApiKeyRow | undefined => byId.get({ projectId, id }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: (projectId: string, environment: Environment | undefined, before: string, limit: number): ApiKeyRow[] =>
      newest.all({ projectId, environment: environment ?? null, before, limit }),
    insert: (unit: Unit, row: ApiKeyRow) => void run(unit, db.insert(apiKeys).values(row)),
    revoke: (unit: Unit, id: string, at: number) =>
      void run(unit, db.update(apiKeys).set({ revokedAt: at }).where(eq(apiKeys.id, id))),
    touch: (unit: Unit, id: string, at: number) => void touch.run(unit, { id, at }),
  };
}
