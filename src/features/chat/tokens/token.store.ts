import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading, tenantColumns } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";

export const chatTokens = sqliteTable("chat_tokens", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  userId: text("user_id").notNull(),
  createdAt: integer("created_at").notNull(),
  expiresAt: integer("expires_at").notNull(),
  revokedAt: integer("revoked_at"),
});

type ChatTokenRow = typeof chatTokens.$inferSelect;

export function chatTokenStore({ $client: client }: Db) {
  const columns = columnsOf(chatTokens);
  const find = reading<ChatTokenRow, [string]>(client, `SELECT ${columns} FROM chat_tokens WHERE id = ?`);
  const usable = reading<{ id: string }, [string, string, string, number]>(
    client,
    `SELECT id FROM chat_tokens WHERE project_id = ? AND environment = ? AND user_id = ?
       AND expires_at > ? AND revoked_at IS NULL`,
  );
  const revoked = reading<{ id: string; expiresAt: number }, [number]>(
    client,
    "SELECT id, expires_at AS expiresAt FROM chat_tokens WHERE expires_at > ? AND revoked_at IS NOT NULL",
  );
  const revoke = changing(client, "UPDATE chat_tokens SET revoked_at = ?2 WHERE id = ?1");
  const removeExpired = changing(client, "DELETE FROM chat_tokens WHERE expires_at <= ?");
  return {
    find: (id: string): ChatTokenRow | null => find.get(id),
    insert: inserter<ChatTokenRow>(client, chatTokens),
    /** Tokens of a user that are neither expired nor revoked. */
    usable: ({ projectId, environment }: Tenant, userId: string, at: number) =>
      usable.all(projectId, environment, userId, at).map(({ id }) => id),
    revoked: (at: number) => revoked.all(at),
    revoke: (unit: Unit, id: string, at: number) => void revoke.run(unit, id, at),
    removeExpired: (unit: Unit, at: number) => void removeExpired.run(unit, at),
  };
}

export type ChatTokenStore = ReturnType<typeof chatTokenStore>;
