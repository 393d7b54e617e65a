import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../kernel/db/statements.ts";
import type { PersonalColumns } from "../../kernel/personal-data.ts";

export const EXPORT_STATUSES = ["RUNNING", "READY", "FAILED"] as const;
export type ExportStatus = (typeof EXPORT_STATUSES)[number];

export const personErasures = sqliteTable("person_erasures", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  digest: text("digest").notNull(),
  /** Null once everything about the user is gone. */
  userId: text("user_id"),
  requestedAt: integer("requested_at").notNull(),
  erasedAt: integer("erased_at"),
  finishedAt: integer("finished_at"),
});

export const personExports = sqliteTable("person_exports", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  userId: text("user_id").notNull(),
  status: text("status").$type<ExportStatus>().notNull(),
  bytes: integer("bytes"),
  sha256: text("sha256"),
  requestedAt: integer("requested_at").notNull(),
  finishedAt: integer("finished_at"),
});

export type ErasureRow = typeof personErasures.$inferSelect;
export type ExportRow = typeof personExports.$inferSelect;

/** An erasure removes the user's exports, and, when it is done, the user id from its own row. */
export const privacyPersonalColumns: PersonalColumns = {
  userIds: { "person_exports.user_id": "" },
  content: ["person_erasures.user_id"],
};
