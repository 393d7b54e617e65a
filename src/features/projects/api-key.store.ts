import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, rowsOf, tenantColumns } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Environment } from "../../protocol/enums.ts";

export const apiKeys = sqliteTable("api_keys", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  publicId: text("public_id").notNull().unique(),
  /** HMAC of the secret half; the secret itself is returned once and never stored. */
  secretDigest: text("secret_digest").notNull(),
  /** Set for a key that was taken over from a LiveKit server. */
  sealedLivekitSecret: text("sealed_livekit_secret"),
  name: text("name").notNull(),
  lastUsedAt: integer("last_used_at"),
  createdAt: integer("created_at").notNull(),
  revokedAt: integer("revoked_at"),
});

export type ApiKeyRow = typeof apiKeys.$inferSelect;
export type ApiKeyStore = ReturnType<typeof apiKeyStore>;

export function apiKeyStore({ $client: client }: Db) {
  const select = rowsOf(client, apiKeys);
  const usable = select<[string]>(
    `WHERE public_id = ? AND revoked_at IS NULL
     AND EXISTS (SELECT 1 FROM projects WHERE projects.id = project_id AND status = 'ACTIVE')`,
  );
  const byId = select<[string, string]>("WHERE id = ? AND project_id = ?");
  const byPublicId = select<[string]>("WHERE public_id = ?");
  const newest = select<[string, string, Environment | null, number]>(
    "WHERE project_id = ?1 AND id < ?2 AND (?3 IS NULL OR environment = ?3) ORDER BY id DESC LIMIT ?4",
  );
  const revoke = changing<[number, string]>(client, "UPDATE api_keys SET revoked_at = ? WHERE id = ?");
  const setDigest = changing<[string, string]>(client, "UPDATE api_keys SET secret_digest = ? WHERE id = ?");
  const touch = changing<[number, string]>(client, "UPDATE api_keys SET last_used_at = ? WHERE id = ?");

  return {
    /** The key is neither revoked nor part of an archived project. */
    findUsable: (publicId: string) => usable.get(publicId),
    findByPublicId: (publicId: string) => byPublicId.get(publicId),
    find: (projectId: string, id: string) => byId.get(id, projectId),
    /** Newest first. `before` is the last id of the previous page; ids sort by time. */
    list: (projectId: string, environment: Environment | undefined, before: string, limit: number) =>
      newest.all(projectId, before, environment ?? null, limit),
    insert: inserter<ApiKeyRow>(client, apiKeys),
    revoke: (unit: Unit, id: string, at: number) => void revoke.run(unit, at, id),
    setDigest: (unit: Unit, id: string, digest: string) => void setDigest.run(unit, digest, id),
    touch: (unit: Unit, id: string, at: number) => void touch.run(unit, at, id),
  };
}
