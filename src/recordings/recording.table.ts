import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { projects } from "../projects/store/project.table.ts";
import type { Environment, RecordingStatus } from "../protocol/enums.ts";
import type { RecordedFile } from "../protocol/media/recording.ts";
import type { CompositionState } from "../protocol/recordings.ts";
import type { TrackKind, TrackSource } from "../protocol/room-records.ts";
import { rooms } from "../rooms/store/room.table.ts";

export const recordings = sqliteTable("recordings", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  projectId: text("project_id")
    .notNull()
    .references(() => projects.id),
  environment: text("environment").$type<Environment>().notNull(),
  roomId: text("room_id")
    .notNull()
    .references(() => rooms.id),
  roomName: text("room_name").notNull(),
  callId: text("call_id"),
  name: text("name"),
  audioOnly: integer("audio_only", { mode: "boolean" }).notNull(),
  automatic: integer("automatic", { mode: "boolean" }).notNull(),
  status: text("status").$type<RecordingStatus>().notNull(),
  error: text("error"),
  startedAt: integer("started_at").notNull(),
  lastSeenAt: integer("last_seen_at").notNull(),
  endedAt: integer("ended_at"),
  composition: text("composition", { mode: "json" }).$type<CompositionState>(),
});

export const recordingFiles = sqliteTable(
  "recording_files",
  {
    recordingId: text("recording_id")
      .notNull()
      .references(() => recordings.id, { onDelete: "cascade" }),
    id: text("id").notNull(),
    fileName: text("file_name").notNull(),
    identity: text("identity").notNull(),
    trackId: text("track_id").notNull(),
    kind: text("kind").$type<TrackKind>().notNull(),
    source: text("source").$type<TrackSource>().notNull(),
    codec: text("codec").$type<RecordedFile["codec"]>().notNull(),
    mimeType: text("mime_type").notNull(),
    offsetMs: integer("offset_ms").notNull(),
    durationMs: integer("duration_ms").notNull(),
    bytes: integer("bytes").notNull(),
    width: integer("width"),
    height: integer("height"),
  },
  (table) => [primaryKey({ columns: [table.recordingId, table.id] })],
);

export const recordingEvents = sqliteTable(
  "recording_events",
  {
    recordingId: text("recording_id")
      .notNull()
      .references(() => recordings.id, { onDelete: "cascade" }),
    seq: integer("seq").notNull(),
    atMs: integer("at_ms").notNull(),
    type: text("type").notNull(),
    identity: text("identity"),
    data: text("data", { mode: "json" }).$type<Record<string, unknown>>(),
  },
  (table) => [primaryKey({ columns: [table.recordingId, table.seq] })],
);

export type RecordingRow = typeof recordings.$inferSelect;
export type RecordingFileRow = typeof recordingFiles.$inferSelect;
export type RecordingEventRow = typeof recordingEvents.$inferSelect;
