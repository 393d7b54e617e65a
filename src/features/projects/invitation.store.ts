import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, rowsOf } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { ProjectRole } from "../../protocol/enums.ts";

/** Pending invitations only: accepting or withdrawing one deletes its row. */
export const invitations = sqliteTable("invitations", {
  id: text("id").primaryKey(),
  digest: text("digest").notNull().unique(),
  projectId: text("project_id").notNull(),
  email: text("email").notNull(),
  role: text("role").$type<ProjectRole>().notNull(),
  /** E-mail address of the inviter; null if invited from the command line. */
  invitedBy: text("invited_by"),
  createdAt: integer("created_at").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

export type InvitationRow = typeof invitations.$inferSelect;

export function invitationStore({ $client: client }: Db) {
  const select = rowsOf(client, invitations);
  const byDigest = select<[string, number]>("WHERE digest = ? AND expires_at > ?");
  const newest = select<[string, number, string, number]>(
    "WHERE project_id = ? AND expires_at > ? AND id < ? ORDER BY id DESC LIMIT ?",
  );
  const insert = inserter<InvitationRow>(client, invitations);
  const removeByEmail = changing<[string, string]>(
    client,
    "DELETE FROM invitations WHERE project_id = ? AND email = ?",
  );
  const remove = changing<[string, string]>(client, "DELETE FROM invitations WHERE project_id = ? AND id = ?");
  const expire = changing<[number]>(client, "DELETE FROM invitations WHERE expires_at <= ?");

  return {
    findByDigest: (digest: string, at: number) => byDigest.get(digest, at),
    /** Newest first. `before` is the last id of the previous page; ids sort by time. */
    list: (projectId: string, at: number, before: string, limit: number) => newest.all(projectId, at, before, limit),
    /** A second invitation to an e-mail address replaces the first, whose link becomes invalid. */
    replace(unit: Unit, row: InvitationRow): void {
      removeByEmail.run(unit, row.projectId, row.email);
      insert(unit, row);
    },
    delete: (unit: Unit, projectId: string, id: string): boolean => remove.run(unit, projectId, id).changes > 0,
    deleteExpired: (unit: Unit, at: number) => void expire.run(unit, at),
  };
}
