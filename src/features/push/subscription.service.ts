import { tokensValidFrom } from "../../kernel/data-directory/installation.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { type Tenant, tenantsUsing } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { NotificationLevel } from "../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { AccessRules, ChatCaller } from "../chat/access.ts";
import { loopbackAllowed, refusalOf } from "../webhooks/url-check.ts";
import { receiverKeys } from "./encryption.ts";
import type { PushStore } from "./push.store.ts";
import type { SettingRow, SubscriptionRow } from "./push.table.ts";

type NewSubscription = { endpoint: string; keys: { p256dh: string; auth: string } };

/** The fields that a subscription takes from the token that creates it; the token's scopes are already checked. */
function grantOf(caller: ChatCaller): Pick<SubscriptionRow, "tokenId" | "conversations" | "expiresAt"> {
  if (caller.kind === "apiKey") return { tokenId: null, conversations: null, expiresAt: null };
  const { tokenId, conversations, keepsPush, expiresAt } = caller;
  return {
    tokenId,
    conversations: conversations === null ? null : JSON.stringify(conversations),
    expiresAt: keepsPush ? null : expiresAt,
  };
}

function conversationsOf({ conversations }: SubscriptionRow): string[] | null {
  return conversations === null ? null : (JSON.parse(conversations) as string[]);
}

export type SubscriptionService = ReturnType<typeof subscriptionService>;

/** The push subscriptions of users and their notification settings. */
export function subscriptionService({ bus, config, db, ids, now }: Runtime, store: PushStore, access: AccessRules) {
  const tenants = tenantsUsing(bus, store.tenants);
  // A backup does not contain revocations that were made later.
  const validFrom = tokensValidFrom(db);
  bus.inTransaction("chatTokenRevoked", (unit, { tokenId }) => store.removeOfToken(unit, tokenId));

  /**
   * A token that is limited to some conversations manages only subscriptions that are limited to these conversations.
   */
  function mayManage(caller: ChatCaller, row: SubscriptionRow): boolean {
    if (caller.kind === "apiKey") return true;
    if (row.userId !== caller.userId) return false;
    const own = caller.conversations;
    return own === null || (conversationsOf(row)?.every((id) => own.includes(id)) ?? false);
  }

  function requireValid(tenant: Tenant, { endpoint, keys }: NewSubscription): void {
    const { environment } = tenant;
    // End users choose these endpoints, so private addresses, which developers may use for webhooks, are rejected.
    const refusal = refusalOf(endpoint, environment, false, loopbackAllowed(config));
    if (refusal !== null) throw invalid("endpoint", refusal);
    if (receiverKeys(keys.p256dh, keys.auth) === null) {
      throw invalid("keys", "must be those of PushSubscription.toJSON(): p256dh a point on P-256, auth 16 bytes");
    }
  }

  return {
    hasSubscribers: tenants.has,

    /** An endpoint has one subscription, which belongs to the user who registered it last. */
    subscribe(unit: Unit, caller: ChatCaller, userId: string, input: NewSubscription) {
      const { projectId, environment } = caller;
      const tenant = { projectId, environment };
      requireValid(tenant, input);
      const grant = { ...grantOf(caller), grantedAt: now() };
      const { endpoint, keys } = input;
      const known = store.findEndpoint(tenant, endpoint);
      const isSame = known?.userId === userId && known.p256dh === keys.p256dh && known.auth === keys.auth;
      if (known && isSame) {
        const row = { ...known, ...grant };
        store.save(unit, row);
        return { row, isNew: false };
      }
      if (known) store.remove(unit, known.id);
      const own = store.ofUser(tenant, userId);
      const excess = Math.max(0, own.length + 1 - config.PUSH_MAX_SUBSCRIPTIONS);
      const oldest = own.filter((row) => mayManage(caller, row)).slice(0, excess);
      if (oldest.length < excess) throw new ApiError("SVC_LIMIT_REACHED");
      for (const { id } of oldest) store.remove(unit, id);
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
        ...grant,
      };
      store.save(unit, row);
      unit.afterCommit(() => tenants.add(tenant));
      return { row, isNew: true };
    },

    list: (caller: ChatCaller, userId: string): SubscriptionRow[] =>
      store.ofUser(caller, userId).filter((row) => mayManage(caller, row)),

    remove(unit: Unit, caller: ChatCaller, publicId: string): void {
      const row = store.find(caller, publicId);
      if (!row || !mayManage(caller, row)) throw new ApiError("SVC_PUSH_SUBSCRIPTION_NOT_FOUND");
      store.remove(unit, row.id);
    },

    /** Whether a push about the conversation may still be sent to the browser. */
    mayReceive(row: SubscriptionRow, conversationId: string): boolean {
      if (row.expiresAt !== null && row.expiresAt <= now()) return false;
      if (row.tokenId !== null && row.grantedAt <= validFrom) return false;
      const conversations = conversationsOf(row);
      return access.mayRead({ ...row, scopes: ["chat:read"], conversations }, conversationId);
    },

    /** Removes the subscriptions of expired tokens; called by a recurring job. */
    sweep: (unit: Unit) => store.removeExpired(unit, now()),

    /** The response never contains the endpoint, which is a secret of its owner. */
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
