import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { Identity, NullableTimestamp, nullable, oneOf, Timestamp } from "../../kernel/http/schema.ts";
import { CONNECTION_EVENT_TYPES, CONNECTION_STATES, ERROR_CATEGORIES } from "../../protocol/observability.ts";

export const ConnectionState = oneOf(CONNECTION_STATES);
export const ErrorCategory = oneOf(ERROR_CATEGORIES);
export const MetricRange = oneOf(["15m", "1h", "24h", "7d"]);

export const Connection = t.Object({
  id: t.String(),
  connectionId: t.String({ description: "The client's own name for it" }),
  state: ConnectionState,
  roomId: nullable(t.String()),
  roomName: nullable(t.String()),
  participantIdentity: t.String(),
  serverName: nullable(t.String()),
  sdk: nullable(t.String()),
  userAgent: nullable(t.String()),
  ipAddress: nullable(t.String()),
  reconnectCount: Type.Integer(),
  rttMs: nullable(t.Number()),
  jitterMs: nullable(t.Number()),
  packetLossPercent: nullable(t.Number()),
  joinTimeMs: nullable(t.Number({ description: "From the socket to the first media; null without media" })),
  startedAt: Timestamp,
  connectedAt: NullableTimestamp,
  disconnectedAt: NullableTimestamp,
  durationMs: nullable(t.Number({ description: "From connectedAt" })),
  disconnectReason: nullable(t.String()),
});

export const ConnectionDump = t.Object({
  id: t.String(),
  connectionId: t.String({ description: "The client's own name for it" }),
  reason: t.String({ description: "The code of the error it was kept for, or asked" }),
  takenAt: Timestamp,
  bytes: Type.Integer({ description: "As it is stored" }),
});

export const ClassifiedError = t.Object({
  id: t.String(),
  category: ErrorCategory,
  code: t.String(),
  message: t.String(),
  likelyCause: t.String(),
  suggestedAction: t.String(),
  connectionId: nullable(t.String()),
  roomId: nullable(t.String()),
  occurredAt: Timestamp,
});

const ConnectionEvent = t.Object({
  type: oneOf(CONNECTION_EVENT_TYPES),
  source: oneOf(["server", "client"]),
  timestamp: Timestamp,
  data: nullable(t.Record(t.String(), t.Unknown())),
});

export const ConnectionDetail = t.Object({
  ...Connection.properties,
  events: t.Array(ConnectionEvent),
  errors: t.Array(ClassifiedError),
});

export const ErrorDetail = t.Object({ ...ClassifiedError.properties, connection: nullable(Connection) });

export const Metrics = t.Object({
  rangeSeconds: Type.Integer(),
  activeRooms: Type.Integer(),
  activeParticipants: Type.Integer(),
  connections: Type.Integer(),
  connectionSuccessRate: nullable(t.Number()),
  reconnectionRate: nullable(t.Number()),
  averageConnectionDurationMs: nullable(t.Number()),
  joinTimeMs: t.Object({ p50: nullable(t.Number()), p95: nullable(t.Number()), p99: nullable(t.Number()) }),
  errors: t.Object({ total: Type.Integer(), byCategory: t.Record(t.String(), Type.Integer()) }),
});

export const MetricSeries = t.Object({
  rangeSeconds: Type.Integer(),
  stepSeconds: Type.Integer(),
  points: t.Array(
    t.Object({
      at: Timestamp,
      rooms: Type.Integer({ description: "Most at once within the step" }),
      participants: Type.Integer({ description: "Most at once within the step" }),
      joins: Type.Integer(),
      failedJoins: Type.Integer(),
      messages: Type.Integer(),
      deliveries: Type.Integer({ description: "Webhook attempts that were taken" }),
      failedDeliveries: Type.Integer({ description: "Webhook attempts that failed" }),
    }),
  ),
});

export const Diagnostics = t.Object({
  status: oneOf(["ok", "degraded", "down"]),
  checkedAt: Timestamp,
  dependencies: t.Array(
    t.Object({
      name: t.String(),
      status: oneOf(["ok", "degraded", "down"]),
      latencyMs: nullable(t.Number()),
      detail: nullable(t.String()),
    }),
  ),
});

export const TelemetryEvent = t.Object({
  connectionId: Identity,
  type: oneOf(CONNECTION_EVENT_TYPES),
  timestamp: t.Optional(Timestamp),
  data: t.Optional(t.Record(t.String(), t.Unknown())),
});
