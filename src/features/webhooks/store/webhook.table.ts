import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../../kernel/db/statements.ts";
import type { DeliveryStatus, WebhookDisabledReason, WebhookFormat, WebhookStatus } from "../../../protocol/enums.ts";
import type { LivekitEventType, WebhookEventType } from "../../../protocol/webhook-events.ts";

export const webhookEndpoints = sqliteTable("webhook_endpoints", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  url: text("url").notNull(),
  description: text("description"),
  format: text("format").$type<WebhookFormat>().notNull().default("stoa"),
  /** The key whose LiveKit secret signs events in LiveKit's format. */
  apiKeyId: text("api_key_id"),
  /** An empty list means every type, including types that are added later. */
  events: text("events", { mode: "json" }).$type<(WebhookEventType | LivekitEventType)[]>().notNull().default([]),
  status: text("status").$type<WebhookStatus>().notNull().default("ACTIVE"),
  disabledReason: text("disabled_reason").$type<WebhookDisabledReason>(),
  consecutiveFailures: integer("consecutive_failures").notNull().default(0),
  /** Null once an attempt has succeeded. */
  failingSince: integer("failing_since"),
  /** Time of the oldest event that may be missing, until it is recovered. */
  missedSince: integer("missed_since"),
  sealedSecret: text("sealed_secret").notNull(),
  sealedPreviousSecret: text("sealed_previous_secret"),
  previousSecretUntil: integer("previous_secret_until"),
  lastDeliveryAt: integer("last_delivery_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const webhookEvents = sqliteTable("webhook_events", {
  seq: integer("seq").primaryKey({ autoIncrement: true }),
  id: text("id").notNull().unique(),
  ...tenantColumns,
  type: text("type").notNull(),
  body: text("body").notNull(),
  messageId: text("message_id"),
  /** Events with the same key are delivered to an endpoint one after the other. */
  orderKey: text("order_key"),
  createdAt: integer("created_at").notNull(),
});

export const webhookPeriods = sqliteTable("webhook_periods", {
  endpointId: text("endpoint_id").notNull(),
  startSeq: integer("start_seq").notNull(),
  position: integer("position").notNull(),
  endSeq: integer("end_seq"),
});

/** One attempt of a delivery, as the API shows it. */
export type Attempt = { at: string; statusCode: number | null; durationMs: number; error: string | null };

export const webhookDeliveries = sqliteTable("webhook_deliveries", {
  id: text("id").primaryKey(),
  endpointId: text("endpoint_id").notNull(),
  eventId: text("event_id").notNull(),
  status: text("status").$type<DeliveryStatus>().notNull().default("PENDING"),
  forced: integer("forced", { mode: "boolean" }).notNull().default(false),
  attempts: text("attempts", { mode: "json" }).$type<Attempt[]>().notNull().default([]),
  attemptCount: integer("attempt_count").notNull().default(0),
  roundStart: integer("round_start").notNull().default(0),
  nextAttemptAt: integer("next_attempt_at"),
  lastError: text("last_error"),
  createdAt: integer("created_at").notNull(),
  deliveredAt: integer("delivered_at"),
});

export type EndpointRow = typeof webhookEndpoints.$inferSelect;
export type EventRow = typeof webhookEvents.$inferSelect;
export type PeriodRow = typeof webhookPeriods.$inferSelect;
export type DeliveryRow = typeof webhookDeliveries.$inferSelect;
