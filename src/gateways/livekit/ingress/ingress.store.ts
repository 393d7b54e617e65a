import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, inserter, reading, rowsOf, tenantColumns, updater } from "../../../kernel/db/statements.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { TrackSource } from "../../../protocol/room-records.ts";

/** How media arrives: a WHIP encoder sends it here, or this server fetches a URL. */
export type IngressInput = "whip" | "url";
export type IngressStatus = "INACTIVE" | "BUFFERING" | "PUBLISHING" | "ERROR" | "COMPLETE";

export type IngressSettings = {
  name: string;
  roomName: string;
  participantIdentity: string;
  participantName: string;
  participantMetadata: string;
  enabled: boolean;
  audio: { name: string; source: TrackSource };
  /** The size and rate are those of a fetched URL's transcoding. */
  video: { name: string; source: TrackSource; width: number; height: number; framesPerSecond: number; kbps: number };
  /** The options from LiveKit's request, in its JSON form, for responses. */
  given: { audio: unknown; video: unknown };
};

export const ingresses = sqliteTable("ingresses", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  apiKeyId: text("api_key_id").notNull(),
  input: text("input").$type<IngressInput>().notNull(),
  url: text("url").notNull(),
  settings: text("settings", { mode: "json" }).$type<IngressSettings>().notNull(),
  status: text("status").$type<IngressStatus>().notNull(),
  error: text("error").notNull(),
  roomId: text("room_id"),
  createdAt: integer("created_at").notNull(),
  startedAt: integer("started_at"),
  updatedAt: integer("updated_at").notNull(),
  endedAt: integer("ended_at"),
});

export type IngressRow = typeof ingresses.$inferSelect;

export function ingressStore({ $client: client }: Db) {
  const rows = rowsOf(client, ingresses);
  const byId = rows<[string]>("WHERE id = ?");
  const newest = rows<[string, string]>("WHERE project_id = ? AND environment = ? ORDER BY created_at DESC, id");
  const count = reading<{ count: number }, [string, string]>(
    client,
    "SELECT count(*) AS count FROM ingresses WHERE project_id = ? AND environment = ?",
  );
  const active = rows<[]>("WHERE status IN ('BUFFERING', 'PUBLISHING')");
  const remove = changing<[string]>(client, "DELETE FROM ingresses WHERE id = ?");
  return {
    insert: inserter(client, ingresses),
    update: updater(client, ingresses),
    remove: remove.run,
    active: active.all,
    get: byId.get,
    count: ({ projectId, environment }: Tenant): number => count.get(projectId, environment)?.count ?? 0,
    list: ({ projectId, environment }: Tenant) => newest.all(projectId, environment),
  };
}
