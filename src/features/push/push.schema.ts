import { t } from "elysia";
import { Identity, NullableTimestamp, nullable, oneOf, Timestamp } from "../../kernel/http/schema.ts";
import { NOTIFICATION_LEVELS } from "../../protocol/chat-records.ts";

export const PushKey = t.Object({
  publicKey: t.String({ description: "For `pushManager.subscribe` as `applicationServerKey`; base64url" }),
});

export const Subscribe = t.Object({
  endpoint: t.String({
    minLength: 1,
    maxLength: 2048,
    description: "The `endpoint` of PushSubscription.toJSON()",
  }),
  keys: t.Object({ p256dh: t.String({ maxLength: 128 }), auth: t.String({ maxLength: 64 }) }),
  userId: t.Optional(t.Union([Identity, t.Literal("")], { description: "With an API key: the user of the browser" })),
});

export const PushSubscription = t.Object({
  id: t.String(),
  userId: t.String(),
  host: t.String({ description: "The push service; the address itself is never shown" }),
  createdAt: Timestamp,
  lastPushedAt: NullableTimestamp,
});

const Level = oneOf(NOTIFICATION_LEVELS);

export const NotificationSetting = t.Object({
  level: t.UnionEnum([...NOTIFICATION_LEVELS], { description: "`mentions`: mentions and rings; `none`: nothing" }),
  mutedUntil: NullableTimestamp,
});

export const SetNotifications = t.Object({
  level: Level,
  mutedUntil: t.Optional(nullable(Timestamp)),
  userId: t.Optional(t.Union([Identity, t.Literal("")], { description: "With an API key: the user of the setting" })),
});
