import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { type Tenant, tenantsUsing } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { NotificationLevel } from "../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { loopbackAllowed, refusalOf } from "../webhooks/url-check.ts";
import { receiverKeys } from "./encryption.ts";
import type { PushStore } from "./push.store.ts";
import type { SettingRow, SubscriptionRow } from "./push.table.ts";

type NewSubscription = { endpoint: string; keys: { p256dh: string; auth: string } };

export type SubscriptionService = ReturnType<typeof subscriptionService>;

/** The push subscriptions of users and their notification settings. */
export function subscriptionService({ bus, config, ids, now }: Runtime, store: PushStore) {
  const tenants = tenantsUsing(bus, store.tenants);

  function requireValid(tenant: Tenant, { endpoint, keys }: NewSubscription): void {
    const { environment } = tenant;
    // End users name these addresses, so the private ones that developers may use for webhooks are refused.
    const refusal = refusalOf(endpoint, environment, false, loopbackAllowed(config));
    if (refusal !== null) throw invalid("endpoint", refusal);
    if (receiverKeys(keys.p256dh, keys.auth) === null) {
      throw invalid("keys", "must be those of PushSubscription.toJSON(): p256dh a point on P-256, auth 16 bytes");
    }
  }

  return {
    hasSubscribers: tenants.has,

    /** An endpoint has one subscription, which belongs to the user who registered it last. */
    subscribe(unit: Unit, { projectId, environment }: Tenant, userId: string, input: NewSubscription) {
      const tenant = { projectId, environment };
      requireValid(tenant, input);
      const { endpoint, keys } = input;
      const known = store.findEndpoint(tenant, endpoint);
      const isSame = known?.userId === userId && known.p256dh === keys.p256dh && known.auth === keys.auth;
      if (known && isSame) return { row: known, isNew: false };
      if (known) store.remove(unit, known.id);
      const own = store.ofUser(tenant, userId);
      for (const oldest of own.slice(0, Math.max(0, own.length + 1 - config.PUSH_MAX_SUBSCRIPTIONS))) {
        store.remove(unit, oldest.id);
      }
      const row: SubscriptionRow = {
        id: ids.uuid(),
        publicId: ids.publicId("pushSubscription"),
        ...tenant,
        userId,
        endpoint,
        p256dh: keys.p256dh,
        auth: keys.auth,
        createdAt: now(),
        lastPushedAt: null,
      };
      store.insert(unit, row);
      unit.afterCommit(() => tenants.add(tenant));
      return { row, isNew: true };
    },

    list: store.ofUser,

    /** With `userId` null, as for a server, subscriptions of any user can be removed. */
    remove(unit: Unit, tenant: Tenant, userId: string | null, publicId: string): void {
      const row = store.find(tenant, publicId);
      if (!row || (userId !== null && row.userId !== userId)) throw new ApiError("SVC_PUSH_SUBSCRIPTION_NOT_FOUND");
      store.remove(unit, row.id);
    },

    /** Never shows the endpoint, which is a secret of its owner. */
    present: ({ publicId, userId, endpoint, createdAt, lastPushedAt }: SubscriptionRow) => ({
      id: publicId,
      userId,
      host: new URL(endpoint).host,
      createdAt: iso(createdAt),
      lastPushedAt: iso(lastPushedAt),
    }),

    setting: (conversationId: string, userId: string): SettingRow =>
      store.setting(conversationId, userId) ?? { conversationId, userId, level: "all", mutedUntil: null },
    set(unit: Unit, conversationId: string, userId: string, level: NotificationLevel, mutedUntil: number | null) {
      const row: SettingRow = { conversationId, userId, level, mutedUntil };
      store.saveSetting(unit, row);
      return row;
    },
    presentSetting: ({ level, mutedUntil }: SettingRow) => ({ level, mutedUntil: iso(mutedUntil) }),
  };
}
