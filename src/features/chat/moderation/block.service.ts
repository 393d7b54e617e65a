import { iso } from "../../../kernel/clock.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { type Tenant, tenantsWith } from "../../../kernel/tenant.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { Access } from "../access.ts";
import type { MemberStore } from "../store/member.store.ts";
import type { BlockStore } from "./block.store.ts";
import type { BlockRow } from "./moderation.table.ts";

const MAX_BLOCKS = 1_000;

export type BlockService = ReturnType<typeof blockService>;

/** Whom users do not want to hear from: no direct messages, mentions, rings or pushes of theirs. */
export function blockService({ bus, now }: Runtime, { store, members }: { store: BlockStore; members: MemberStore }) {
  /** In which somebody has blocked somebody. */
  const tenants = tenantsWith(bus, store.tenants);

  return {
    list: store.list,
    show: ({ blockedUserId, createdAt }: BlockRow) => ({ userId: blockedUserId, createdAt: iso(createdAt) }),
    hasBlocked: (tenant: Tenant, userId: string, blockedUserId: string): boolean =>
      tenants.has(tenant) && store.find(tenant, userId, blockedUserId) !== null,

    block(unit: Unit, { projectId, environment }: Tenant, userId: string, blockedUserId: string) {
      if (userId === blockedUserId) throw invalid("blockedUserId", "is the user's own");
      const tenant = { projectId, environment };
      const known = store.find(tenant, userId, blockedUserId);
      if (known) return { row: known, isNew: false };
      if (store.count(tenant, userId) >= MAX_BLOCKS) throw new ApiError("SVC_LIMIT_REACHED");
      const row: BlockRow = { ...tenant, userId, blockedUserId, createdAt: now() };
      store.insert(unit, row);
      // At once: what is sent within the same transaction meets it too.
      tenants.add(tenant);
      return { row, isNew: true };
    },
    unblock: store.remove,

    /** Of a conversation of two: whoever is blocked by the other one says nothing. */
    requireWelcome({ kind, conversation, userId }: Access): void {
      if (kind !== "user" || !tenants.has(conversation)) return;
      for (const other of members.list(conversation.id, "ACTIVE", null, 2)) {
        if (other.userId !== userId && store.find(conversation, other.userId, userId)) {
          throw new ApiError("SVC_BLOCKED");
        }
      }
    },
  };
}
