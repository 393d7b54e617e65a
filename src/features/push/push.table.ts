import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../kernel/db/statements.ts";
import type { NotificationLevel } from "../../protocol/chat-records.ts";
import { conversationColumn } from "../chat/conversations/conversation.table.ts";

/** The reason for a push. */
export type PushKind = "message" | "mention" | "ring" | "missed_call";

export const pushSubscriptions = sqliteTable("push_subscriptions", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  ...tenantColumns,
  userId: text("user_id").notNull(),
  /** A secret of its owner: anyone who knows it can send requests to the push service. */
  endpoint: text("endpoint").notNull(),
  p256dh: text("p256dh").notNull(),
  auth: text("auth").notNull(),
  createdAt: integer("created_at").notNull(),
  lastPushedAt: integer("last_pushed_at"),
  /** The chat token that created the subscription; null for a backend. */
  tokenId: text("token_id"),
  /** The conversations (uuids) of that token as a JSON array; null for all. */
  conversations: text("conversations"),
  /** When the subscription was created or renewed. */
  grantedAt: integer("granted_at").notNull(),
  /** The expiry of the token; null when the subscription does not expire. */
  expiresAt: integer("expires_at"),
});

/** Messages and rings whose recipients are not determined yet. */
export const pushQueue = sqliteTable("push_queue", {
  id: integer("id").primaryKey(),
  ...tenantColumns,
  kind: text("kind").$type<Exclude<PushKind, "mention">>().notNull(),
  ...conversationColumn,
  /** The public id of the message or ring. */
  subjectId: text("subject_id").notNull(),
  /** The recipients up to this user id are determined. */
  position: text("position").notNull().default(""),
  createdAt: integer("created_at").notNull(),
});

export const pushDeliveries = sqliteTable("push_deliveries", {
  id: integer("id").primaryKey(),
  subscriptionId: text("subscription_id").notNull(),
  /** The push service: the origin of the subscription's endpoint. */
  origin: text("origin").notNull(),
  kind: text("kind").$type<PushKind>().notNull(),
  topic: text("topic").notNull(),
  ...conversationColumn,
  subjectId: text("subject_id").notNull(),
  attemptCount: integer("attempt_count").notNull().default(0),
  nextAttemptAt: integer("next_attempt_at").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

/** A member's setting for a conversation; without a row the level is `all`. */
export const notificationSettings = sqliteTable("notification_settings", {
  ...conversationColumn,
  userId: text("user_id").notNull(),
  level: text("level").$type<NotificationLevel>().notNull(),
  mutedUntil: integer("muted_until"),
});

export type SubscriptionRow = typeof pushSubscriptions.$inferSelect;
export type QueuedRow = typeof pushQueue.$inferSelect;
export type DeliveryRow = typeof pushDeliveries.$inferSelect;
export type SettingRow = typeof notificationSettings.$inferSelect;
