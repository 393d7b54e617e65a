import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type { NotificationLevel } from "../../protocol/chat-records.ts";
import type { Environment } from "../../protocol/enums.ts";
import { conversations } from "../chat/conversations/conversation.table.ts";
import { projects } from "../projects/project.table.ts";

/** What a browser is woken for; a mention is a message to everybody else. */
export type PushKind = "message" | "mention" | "ring" | "missed_call";

const ofProject = {
  projectId: text("project_id")
    .notNull()
    .references(() => projects.id),
  environment: text("environment").$type<Environment>().notNull(),
};
const ofConversation = {
  conversationId: text("conversation_id")
    .notNull()
    .references(() => conversations.id),
};

/** Browsers that want to be woken. */
export const pushSubscriptions = sqliteTable(
  "push_subscriptions",
  {
    id: text("id").primaryKey(),
    publicId: text("public_id").notNull().unique(),
    ...ofProject,
    userId: text("user_id").notNull(),
    /** A secret of its owner: whoever knows it can ask the push service. */
    endpoint: text("endpoint").notNull(),
    p256dh: text("p256dh").notNull(),
    auth: text("auth").notNull(),
    createdAt: integer("created_at").notNull(),
    lastPushedAt: integer("last_pushed_at"),
  },
  (table) => [
    uniqueIndex("push_subscriptions_once").on(table.projectId, table.environment, table.endpoint),
    index("push_subscriptions_by_user").on(table.projectId, table.environment, table.userId, table.id),
  ],
);

/** What happened, until it is decided who is to be woken for it. */
export const pushQueue = sqliteTable("push_queue", {
  id: integer("id").primaryKey(),
  ...ofProject,
  kind: text("kind").$type<Exclude<PushKind, "mention">>().notNull(),
  ...ofConversation,
  /** The message or the ring. */
  subjectId: text("subject_id").notNull(),
  /** Members up to here have been looked at. */
  position: text("position").notNull().default(""),
  createdAt: integer("created_at").notNull(),
});

export const pushDeliveries = sqliteTable(
  "push_deliveries",
  {
    id: integer("id").primaryKey(),
    subscriptionId: text("subscription_id")
      .notNull()
      .references(() => pushSubscriptions.id, { onDelete: "cascade" }),
    kind: text("kind").$type<PushKind>().notNull(),
    topic: text("topic").notNull(),
    ...ofConversation,
    subjectId: text("subject_id").notNull(),
    attemptCount: integer("attempt_count").notNull().default(0),
    nextAttemptAt: integer("next_attempt_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [
    uniqueIndex("push_deliveries_by_topic").on(table.subscriptionId, table.topic),
    index("push_deliveries_due").on(table.nextAttemptAt),
    index("push_deliveries_of_conversation").on(table.conversationId),
  ],
);

/** What a member wants to be woken for in a conversation; no row: everything. */
export const notificationSettings = sqliteTable(
  "notification_settings",
  {
    ...ofConversation,
    userId: text("user_id").notNull(),
    level: text("level").$type<NotificationLevel>().notNull(),
    mutedUntil: integer("muted_until"),
  },
  (table) => [primaryKey({ columns: [table.conversationId, table.userId] })],
);

export type SubscriptionRow = typeof pushSubscriptions.$inferSelect;
export type QueuedRow = typeof pushQueue.$inferSelect;
export type DeliveryRow = typeof pushDeliveries.$inferSelect;
export type SettingRow = typeof notificationSettings.$inferSelect;
