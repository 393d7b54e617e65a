import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { type Tenant, tenantsUsing } from "../../../kernel/tenant.ts";
import { iso } from "../../../kernel/time/clock.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { Access } from "../access.ts";
import type { MemberStore } from "../conversations/member.store.ts";
import { type BlockRow, chatBlocks } from "./moderation.table.ts";

const MAX_BLOCKS = 1_000;

export type BlockService = ReturnType<typeof blockService>;

/** Users whom a user has blocked: their direct messages, mentions, rings and pushes do not reach the user. */
export function blockService({ bus, db, now }: Runtime, members: MemberStore) {
  const store = blockStore(db);
  /** Most projects have no blocks, and their messages need no query. */
  const tenants = tenantsUsing(bus, store.tenants);

  return {
    list: store.list,
    unblock: store.remove,
    present: ({ blockedUserId, createdAt }: BlockRow) => ({ userId: blockedUserId, createdAt: iso(createdAt) }),
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
      // The tenant is added before the commit, because a message in the same transaction must already be checked.
      tenants.add(tenant);
      return { row, isNew: true };
    },

    /** In a direct conversation, a user whom the other member has blocked cannot send. */
    requireNotBlocked({ kind, conversation, userId }: Access): void {
      if (kind !== "user" || !tenants.has(conversation)) return;
      for (const other of members.list(conversation.id, "ACTIVE", null, 2)) {
        if (other.userId !== userId && store.find(conversation, other.userId, userId)) {
          throw new ApiError("SVC_BLOCKED");
        }
      }
    },
  };
}

function blockStore({ $client: client }: Db) {
  const columns = columnsOf(chatBlocks);
  const ofUser = "project_id = ? AND environment = ? AND user_id = ?";
  const find = reading<BlockRow, string[]>(
    client,
    `SELECT ${columns} FROM chat_blocks WHERE ${ofUser} AND blocked_user_id = ?`,
  );
  const list = reading<BlockRow, (string | number)[]>(
    client,
    `SELECT ${columns} FROM chat_blocks WHERE ${ofUser} AND blocked_user_id > ? ORDER BY blocked_user_id LIMIT ?`,
  );
  const count = reading<{ count: number }, string[]>(
    client,
    `SELECT count(*) AS count FROM chat_blocks WHERE ${ofUser}`,
  );
  const tenants = reading<Tenant, []>(client, "SELECT DISTINCT project_id AS projectId, environment FROM chat_blocks");
  const remove = changing(client, `DELETE FROM chat_blocks WHERE ${ofUser} AND blocked_user_id = ?`);
  return {
    insert: inserter<BlockRow>(client, chatBlocks),
    find: ({ projectId, environment }: Tenant, userId: string, blockedUserId: string): BlockRow | null =>
      find.get(projectId, environment, userId, blockedUserId),
    list: ({ projectId, environment }: Tenant, userId: string, after: string, limit: number): BlockRow[] =>
      list.all(projectId, environment, userId, after, limit),
    count: ({ projectId, environment }: Tenant, userId: string): number =>
      count.get(projectId, environment, userId)?.count ?? 0,
    tenants: (): Tenant[] => tenants.all(),
    remove: (unit: Unit, { projectId, environment }: Tenant, userId: string, blockedUserId: string) =>
      void remove.run(unit, projectId, environment, userId, blockedUserId),
  };
}
