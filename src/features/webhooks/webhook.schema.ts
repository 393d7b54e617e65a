import { type Static, Type } from "@sinclair/typebox";
import { t } from "elysia";
import { Environment, NullableTimestamp, nullable, oneOf, Timestamp, wholeNumber } from "../../kernel/http/schema.ts";
import { REFUSES_UNKNOWN_FIELDS } from "../../kernel/http/unknown-fields.ts";
import {
  DELIVERY_STATUSES,
  WEBHOOK_DISABLED_REASONS,
  WEBHOOK_FORMATS,
  WEBHOOK_STATUSES,
} from "../../protocol/enums.ts";
import { LIVEKIT_EVENT_TYPES, WEBHOOK_EVENT_TYPES } from "../../protocol/webhook-events.ts";

const Url = t.String({ minLength: 1, maxLength: 2048, description: "https; http for loopback in DEVELOPMENT" });
const Description = nullable(t.String({ maxLength: 500 }));
const EventFilter = t.Array(oneOf([...WEBHOOK_EVENT_TYPES, ...LIVEKIT_EVENT_TYPES]), {
  maxItems: 100,
  description: "Event types of the format to receive; empty or omitted for all types, including those added later",
});

const Format = oneOf(WEBHOOK_FORMATS);
const ApiKeyId = t.String({
  maxLength: 100,
  description: "The key whose LiveKit secret signs events in LiveKit's format; by default the key of this request",
});

export const CreateWebhook = t.Object(
  {
    url: Url,
    environment: t.Optional(Environment),
    format: t.Optional(Format),
    apiKeyId: t.Optional(ApiKeyId),
    events: t.Optional(EventFilter),
    description: t.Optional(Description),
  },
  REFUSES_UNKNOWN_FIELDS,
);
export type CreateWebhook = Static<typeof CreateWebhook>;

export const UpdateWebhook = t.Object(
  {
    url: t.Optional(Url),
    apiKeyId: t.Optional(ApiKeyId),
    events: t.Optional(EventFilter),
    description: t.Optional(Description),
    status: t.Optional(oneOf(WEBHOOK_STATUSES)),
  },
  REFUSES_UNKNOWN_FIELDS,
);
export type UpdateWebhook = Static<typeof UpdateWebhook>;

export const RotateSecret = t.Object({
  overlapSeconds: t.Optional(
    wholeNumber({ min: 0, max: 86_400, description: "How long the old secret still signs; a day by default" }),
  ),
});

export const Recover = t.Object({
  since: t.Optional({ ...Timestamp, description: "From this time; by default from the first failure" }),
  until: t.Optional(Timestamp),
});
export const Recovered = t.Object({ recovered: Type.Integer({ description: "Deliveries that are sent again" }) });

export const Webhook = t.Object({
  id: t.String(),
  projectId: t.String(),
  url: t.String(),
  description: nullable(t.String()),
  environment: Environment,
  format: oneOf(WEBHOOK_FORMATS),
  apiKeyId: nullable(t.String({ description: "The key that signs events in LiveKit's format" })),
  events: t.Array(t.String()),
  status: oneOf(WEBHOOK_STATUSES),
  disabledReason: nullable(oneOf(WEBHOOK_DISABLED_REASONS)),
  consecutiveFailures: Type.Integer(),
  lastDeliveryAt: NullableTimestamp,
  createdAt: Timestamp,
  updatedAt: Timestamp,
});

export const WebhookWithSecret = t.Composite([
  Webhook,
  t.Object({
    secret: t.String({ description: "Shown this once" }),
    warnings: t.Optional(t.Array(t.String(), { description: "Such as another endpoint with the same URL" })),
  }),
]);

export const Delivery = t.Object({
  id: t.String(),
  eventId: t.String(),
  eventType: t.String(),
  status: oneOf(DELIVERY_STATUSES),
  attempts: t.Array(
    t.Object({
      at: Timestamp,
      statusCode: nullable(Type.Integer()),
      durationMs: Type.Integer(),
      error: nullable(t.String()),
    }),
  ),
  attemptCount: Type.Integer(),
  nextAttemptAt: NullableTimestamp,
  lastError: nullable(t.String()),
  createdAt: Timestamp,
  deliveredAt: NullableTimestamp,
});

export const DeliveryWithBody = t.Composite([Delivery, t.Object({ body: t.String({ description: "As it is sent" }) })]);
