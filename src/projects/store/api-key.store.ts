import { and, desc, eq, isNull, lt, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Environment } from "../../protocol/enums.ts";
import { type ApiKeyRow, apiKeys } from "./api-key.table.ts";
import { projects } from "./project.table.ts";

export function apiKeyStore(db: Db) {
  const usable = db
    .select({ key: apiKeys })
    .from(apiKeys)
    .innerJoin(projects, eq(projects.id, apiKeys.projectId))
    .where(
      and(eq(apiKeys.publicId, sql.placeholder("publicId")), isNull(apiKeys.revokedAt), eq(projects.status, "ACTIVE")),
    )
    .prepare();
  const byId = db
    .select()
    .from(apiKeys)
    .where(and(eq(apiKeys.id, sql.placeholder("id")), eq(apiKeys.projectId, sql.placeholder("projectId"))))
    .prepare();
  const newest = db
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
    .prepare();
  const touch = db
    .update(apiKeys)
    .set({ lastUsedAt: sql`${sql.placeholder("at")}` })
    .where(eq(apiKeys.id, sql.placeholder("id")))
    .prepare();

  return {
    /** Not revoked, and of a project that is not archived. */
    findUsable: (publicId: string): ApiKeyRow | undefined => usable.get({ publicId })?.key,
    find: (projectId: string, id: string): ApiKeyRow | undefined => byId.get({ projectId, id }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: (projectId: string, environment: Environment | undefined, before: string, limit: number): ApiKeyRow[] =>
      newest.all({ projectId, environment: environment ?? null, before, limit }),
    insert: (_unit: Unit, row: ApiKeyRow) => void db.insert(apiKeys).values(row).run(),
    revoke: (_unit: Unit, id: string, at: number) =>
      void db.update(apiKeys).set({ revokedAt: at }).where(eq(apiKeys.id, id)).run(),
    touch: (_unit: Unit, id: string, at: number) => void touch.run({ id, at }),
  };
}
