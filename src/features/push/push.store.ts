import type { Db } from "../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import {
  type DeliveryRow,
  notificationSettings,
  pushDeliveries,
  pushQueue,
  pushSubscriptions,
  type QueuedRow,
  type SettingRow,
  type SubscriptionRow,
} from "./push.table.ts";

export type PushStore = ReturnType<typeof pushStore>;

export function pushStore({ $client: client }: Db) {
  const subscription = (postpone: string) =>
    reading(() =>
      client.prepare<SubscriptionRow, (string | number)[]>(
        `SELECT ${columnsOf(pushSubscriptions)} FROM push_subscriptions ${postpone}`,
      ),
    );
  const byId = subscription("WHERE id = ?");
  const byPublicId = subscription("WHERE public_id = ? AND project_id = ? AND environment = ?");
  const byEndpoint = subscription("WHERE endpoint = ? AND project_id = ? AND environment = ?");
  const ofUser = subscription("WHERE project_id = ? AND environment = ? AND user_id = ? ORDER BY id");
  const ofUsers = subscription(
    "WHERE project_id = ? AND environment = ? AND user_id IN (SELECT value FROM json_each(?)) ORDER BY user_id, id",
  );
  const tenants = reading(() =>
    client.prepare<Tenant, []>("SELECT DISTINCT project_id AS projectId, environment FROM push_subscriptions"),
  );
  const remove = changing(() => client.prepare("DELETE FROM push_subscriptions WHERE id = ?"));
  const setPushedAt = changing(() => client.prepare("UPDATE push_subscriptions SET last_pushed_at = ?2 WHERE id = ?1"));

  const queued = reading(() =>
    client.prepare<QueuedRow, []>(`SELECT ${columnsOf(pushQueue)} FROM push_queue ORDER BY id LIMIT 1`),
  );
  const advance = changing(() => client.prepare("UPDATE push_queue SET position = ?2 WHERE id = ?1"));
  const done = changing(() => client.prepare("DELETE FROM push_queue WHERE id = ?"));
  const members = reading(() =>
    client.prepare<{ userId: string }, [string, string, number]>(
      `SELECT user_id AS userId FROM conversation_members
       WHERE conversation_id = ? AND user_id > ? AND status = 'ACTIVE' ORDER BY user_id LIMIT ?`,
    ),
  );

  const put = changing(() =>
    client.prepare(
      `INSERT INTO push_deliveries (subscription_id, kind, topic, conversation_id, subject_id, next_attempt_at, expires_at)
       VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (subscription_id, topic) DO UPDATE SET kind = excluded.kind,
       subject_id = excluded.subject_id, expires_at = excluded.expires_at`,
    ),
  );
  const due = reading(() =>
    client.prepare<DeliveryRow, [number, number]>(
      `SELECT ${columnsOf(pushDeliveries)} FROM push_deliveries WHERE next_attempt_at <= ?
       ORDER BY next_attempt_at, id LIMIT ?`,
    ),
  );
  const next = reading(() =>
    client.prepare<{ at: number | null }, [number]>(
      "SELECT min(next_attempt_at) AS at FROM push_deliveries WHERE next_attempt_at > ?",
    ),
  );
  const settle = changing(() => client.prepare("DELETE FROM push_deliveries WHERE id = ? AND subject_id = ?"));
  const retryAt = changing(() =>
    client.prepare("UPDATE push_deliveries SET attempt_count = attempt_count + 1, next_attempt_at = ?2 WHERE id = ?1"),
  );
  const rest = changing(() =>
    client.prepare("UPDATE push_deliveries SET next_attempt_at = max(next_attempt_at, ?2) WHERE subscription_id = ?1"),
  );
  const dropTopic = changing(() => client.prepare("DELETE FROM push_deliveries WHERE topic = ? AND kind = ?"));

  const setting = reading(() =>
    client.prepare<SettingRow, [string, string]>(
      `SELECT ${columnsOf(notificationSettings)} FROM notification_settings WHERE conversation_id = ? AND user_id = ?`,
    ),
  );
  const set = changing(() =>
    client.prepare(
      `INSERT INTO notification_settings VALUES (?, ?, ?, ?)
       ON CONFLICT (conversation_id, user_id) DO UPDATE SET level = excluded.level, muted_until = excluded.muted_until`,
    ),
  );

  return {
    get: (id: string): SubscriptionRow | null => byId.get(id),
    find: ({ projectId, environment }: Tenant, publicId: string): SubscriptionRow | null =>
      byPublicId.get(publicId, projectId, environment),
    findEndpoint: ({ projectId, environment }: Tenant, endpoint: string): SubscriptionRow | null =>
      byEndpoint.get(endpoint, projectId, environment),
    /** Oldest first. */
    ofUser: ({ projectId, environment }: Tenant, userId: string): SubscriptionRow[] =>
      ofUser.all(projectId, environment, userId),
    ofUsers: ({ projectId, environment }: Tenant, userIds: string[]): SubscriptionRow[] =>
      ofUsers.all(projectId, environment, JSON.stringify(userIds)),
    insert: inserter<SubscriptionRow>(client, pushSubscriptions),
    /** What waits for it goes as well. */
    remove: (unit: Unit, id: string) => void remove.run(unit, id),
    pushed: (unit: Unit, id: string, at: number) => void setPushedAt.run(unit, id, at),
    /** Projects in which anybody wants to be woken. */
    tenants: (): Tenant[] => tenants.all(),

    enqueue: inserter<Omit<QueuedRow, "id">>(client, pushQueue),
    /** The oldest that nobody has looked through to its end. */
    queued: (): QueuedRow | null => queued.get(),
    advance: (unit: Unit, id: number, position: string) => void advance.run(unit, id, position),
    done: (unit: Unit, id: number) => void done.run(unit, id),
    members: (conversationId: string, after: string, limit: number): string[] =>
      members.all(conversationId, after, limit).map(({ userId }) => userId),

    /** In place of one of the same topic that waits; that one's back-off goes on. */
    put: (unit: Unit, row: Omit<DeliveryRow, "id" | "attemptCount">) =>
      void put.run(
        unit,
        row.subscriptionId,
        row.kind,
        row.topic,
        row.conversationId,
        row.subjectId,
        row.nextAttemptAt,
        row.expiresAt,
      ),
    due: (at: number, limit: number): DeliveryRow[] => due.all(at, limit),
    nextDue: (after: number): number | null => next.get(after)?.at ?? null,
    /** It is over, unless something newer took its place meanwhile. */
    settle: (unit: Unit, { id, subjectId }: DeliveryRow) => void settle.run(unit, id, subjectId),
    again: (unit: Unit, { id }: DeliveryRow, at: number) => void retryAt.run(unit, id, at),
    /** Nothing of what waits for this subscription is tried before. */
    rest: (unit: Unit, subscriptionId: string, until: number) => void rest.run(unit, subscriptionId, until),
    dropTopic: (unit: Unit, topic: string, kind: DeliveryRow["kind"]) => void dropTopic.run(unit, topic, kind),

    setting: (conversationId: string, userId: string): SettingRow | null => setting.get(conversationId, userId),
    set: (unit: Unit, { conversationId, userId, level, mutedUntil }: SettingRow) =>
      void set.run(unit, conversationId, userId, level, mutedUntil),
  };
}
