import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../kernel/db/statements.ts";

const EGRESS_STATUSES = ["STARTING", "ACTIVE", "ENDING", "COMPLETE", "FAILED", "ABORTED", "LIMIT_REACHED"] as const;
export type EgressStatus = (typeof EGRESS_STATUSES)[number];

/** One output as its owner sees it; a URL has its stream key replaced. */
export type EgressOutput = {
  id: string;
  kind: "file" | "segments" | "stream";
  /** The path or URL. */
  name: string;
  /** Where a finished file is; empty until it is finished. */
  location: string;
  /** For segments: the playlists' paths. */
  playlist: string;
  livePlaylist: string;
  status: "STARTING" | "ACTIVE" | "FINISHED" | "FAILED";
  error: string | null;
  startedAt: number | null;
  endedAt: number | null;
  durationMs: number;
  bytes: number;
  segments: number;
};

export const egresses = sqliteTable("egresses", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  roomId: text("room_id").notNull(),
  roomName: text("room_name").notNull(),
  status: text("status").$type<EgressStatus>().notNull(),
  error: text("error"),
  request: text("request").notNull(),
  outputs: text("outputs", { mode: "json" }).$type<EgressOutput[]>().notNull(),
  startedAt: integer("started_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  endedAt: integer("ended_at"),
});

export type EgressRow = typeof egresses.$inferSelect;
