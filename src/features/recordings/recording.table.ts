import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../kernel/db/statements.ts";
import type { RecordingStatus } from "../../protocol/enums.ts";
import type { RecordedFile } from "../../protocol/media/recording.ts";
import type { CompositionState } from "../../protocol/recordings.ts";
import type { TrackKind, TrackSource } from "../../protocol/room-records.ts";
import type { Location } from "../storage/storage.ts";

/** This server's disk, the bucket, or the media node that wrote the file; `lost` when that node does not have it. */
export type FileLocation = Location | "node" | "lost";

export const recordings = sqliteTable("recordings", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  ...tenantColumns,
  roomId: text("room_id").notNull(),
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
  encryptedTracks: integer("encrypted_tracks").notNull().default(0),
  composition: text("composition", { mode: "json" }).$type<CompositionState>(),
});

export const recordingFiles = sqliteTable("recording_files", {
  recordingId: text("recording_id").notNull(),
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
  location: text("location").$type<FileLocation>().notNull(),
  /** The media node that has the file; null for other locations. */
  serverName: text("server_name"),
});

/** Unfinished uploads to the bucket. */
export const recordingUploads = sqliteTable("recording_uploads", {
  objectKey: text("object_key").primaryKey(),
  fileId: text("file_id").notNull(),
  uploadId: text("upload_id"),
  etags: text("etags", { mode: "json" }).$type<string[]>().notNull(),
});

/** Files that a media node still has to remove. */
export const recordingLeftovers = sqliteTable("recording_leftovers", {
  serverName: text("server_name").notNull(),
  recordingId: text("recording_id").notNull(),
  fileName: text("file_name").notNull(),
});

export const recordingEvents = sqliteTable("recording_events", {
  recordingId: text("recording_id").notNull(),
  seq: integer("seq").notNull(),
  atMs: integer("at_ms").notNull(),
  type: text("type").notNull(),
  identity: text("identity"),
  data: text("data", { mode: "json" }).$type<Record<string, unknown>>(),
});

export type RecordingRow = typeof recordings.$inferSelect;
export type RecordingFileRow = typeof recordingFiles.$inferSelect;
export type RecordingUploadRow = typeof recordingUploads.$inferSelect;
export type RecordingLeftoverRow = typeof recordingLeftovers.$inferSelect;
export type RecordingEventRow = typeof recordingEvents.$inferSelect;
