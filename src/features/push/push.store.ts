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
  const subscription = (rest: string) =>
    reading<SubscriptionRow, (string | number)[]>(
      client,
      `SELECT ${columnsOf(pushSubscriptions)} FROM push_subscriptions ${rest}`,
    );
  const byId = subscription("WHERE id = ?");
  const byPublicId = subscription("WHERE public_id = ? AND project_id = ? AND environment = ?");
  const byEndpoint = subscription("WHERE endpoint = ? AND project_id = ? AND environment = ?");
  const ofUser = subscription("WHERE project_id = ? AND environment = ? AND user_id = ? ORDER BY id");
  const ofUsers = subscription(
    "WHERE project_id = ? AND environment = ? AND user_id IN (SELECT value FROM json_each(?)) ORDER BY user_id, id",
  );
  const tenants = reading<Tenant, []>(
    client,
    "SELECT DISTINCT project_id AS projectId, environment FROM push_subscriptions",
  );
  const remove = changing(client, "DELETE FROM push_subscriptions WHERE id = ?");
  const removeOfToken = changing(client, "DELETE FROM push_subscriptions WHERE token_id = ?");
  const removeExpired = changing(client, "DELETE FROM push_subscriptions WHERE expires_at <= ?");
  const setPushedAt = changing(client, "UPDATE push_subscriptions SET last_pushed_at = ?2 WHERE id = ?1");

  const firstQueued = reading<QueuedRow, []>(
    client,
    `SELECT ${columnsOf(pushQueue)} FROM push_queue ORDER BY id LIMIT 1`,
  );
  const advance = changing(client, "UPDATE push_queue SET position = ?2 WHERE id = ?1");
  const dequeue = changing(client, "DELETE FROM push_queue WHERE id = ?");
  const members = reading<{ userId: string }, [string, string, number]>(
    client,
    `SELECT user_id AS userId FROM conversation_members
       WHERE conversation_id = ? AND user_id > ? AND status = 'ACTIVE' ORDER BY user_id LIMIT ?`,
  );

  const nextTo = reading<DeliveryRow, [string, string]>(
    client,
    `SELECT ${columnsOf(pushDeliveries)} FROM push_deliveries
       WHERE origin = ? AND subscription_id NOT IN (SELECT value FROM json_each(?)) ORDER BY next_attempt_at, id LIMIT 1`,
  );
  const waitingOrigins = reading<{ origin: string; dueAt: number }, []>(
    client,
    "SELECT origin, min(next_attempt_at) AS dueAt FROM push_deliveries GROUP BY origin",
  );
  const removeDelivery = changing(client, "DELETE FROM push_deliveries WHERE id = ? AND subject_id = ?");
  const retryAt = changing(
    client,
    "UPDATE push_deliveries SET attempt_count = attempt_count + 1, next_attempt_at = ?2 WHERE id = ?1",
  );
  const postpone = changing(
    client,
    "UPDATE push_deliveries SET next_attempt_at = max(next_attempt_at, ?2) WHERE subscription_id = ?1",
  );
  const dropRing = changing(
    client,
    "DELETE FROM push_deliveries WHERE conversation_id = ? AND kind = 'ring' AND subject_id = ?",
  );

  const setting = reading<SettingRow, [string, string]>(
    client,
    `SELECT ${columnsOf(notificationSettings)} FROM notification_settings WHERE conversation_id = ? AND user_id = ?`,
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
    /** A subscription that is created again belongs to the new token. */
    save: inserter<SubscriptionRow>(
      client,
      pushSubscriptions,
      `ON CONFLICT (id) DO UPDATE SET token_id = excluded.token_id, conversations = excluded.conversations,
       granted_at = excluded.granted_at, expires_at = excluded.expires_at`,
    ),
    /** Also removes the pending deliveries of the subscription. */
    remove: (unit: Unit, id: string) => void remove.run(unit, id),
    removeOfToken: (unit: Unit, tokenId: string) => void removeOfToken.run(unit, tokenId),
    removeExpired: (unit: Unit, at: number) => void removeExpired.run(unit, at),
    setPushedAt: (unit: Unit, id: string, at: number) => void setPushedAt.run(unit, id, at),
    tenants: (): Tenant[] => tenants.all(),

    enqueue: inserter<Omit<QueuedRow, "id">>(client, pushQueue),
    firstQueued: (): QueuedRow | null => firstQueued.get(),
    advance: (unit: Unit, id: number, position: string) => void advance.run(unit, id, position),
    dequeue: (unit: Unit, id: number) => void dequeue.run(unit, id),
    members: (conversationId: string, after: string, limit: number): string[] =>
      members.all(conversationId, after, limit).map(({ userId }) => userId),

    /** Replaces a pending delivery of the same topic, whose back-off continues. */
    saveDelivery: inserter<Omit<DeliveryRow, "id">>(
      client,
      pushDeliveries,
      `ON CONFLICT (subscription_id, topic) DO UPDATE SET kind = excluded.kind, subject_id = excluded.subject_id,
       expires_at = excluded.expires_at`,
    ),
    /** The delivery to this push service that is due first, without those to these subscriptions. */
    nextTo: (origin: string, withoutSubscriptions: string[]): DeliveryRow | null =>
      nextTo.get(origin, JSON.stringify(withoutSubscriptions)),
    /** The push services with deliveries, and when the first of each is due. */
    waitingOrigins: () => waitingOrigins.all(),
    /** Keeps the delivery when a newer message or ring has replaced its subject in the meantime. */
    removeDelivery: (unit: Unit, { id, subjectId }: DeliveryRow) => void removeDelivery.run(unit, id, subjectId),
    retryAt: (unit: Unit, { id }: DeliveryRow, at: number) => void retryAt.run(unit, id, at),
    /** Delays all deliveries of a subscription. */
    postpone: (unit: Unit, subscriptionId: string, until: number) => void postpone.run(unit, subscriptionId, until),
    dropRing: (unit: Unit, conversationId: string, ringId: string) => void dropRing.run(unit, conversationId, ringId),

    setting: (conversationId: string, userId: string): SettingRow | null => setting.get(conversationId, userId),
    saveSetting: inserter<SettingRow>(
      client,
      notificationSettings,
      "ON CONFLICT (conversation_id, user_id) DO UPDATE SET level = excluded.level, muted_until = excluded.muted_until",
    ),
  };
}
