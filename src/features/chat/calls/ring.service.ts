import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { DAY_MS, iso } from "../../../kernel/time/clock.ts";
import { MAX_RUNG_MEMBERS, type Metadata, type Ring, type RingMemberStatus } from "../../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import {
  type Access,
  type AccessRules,
  type ChatCaller,
  requireActive,
  requireUnmuted,
  type TokenHolder,
} from "../access.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import { storedMetadata } from "../input.ts";
import type { ChatStores } from "../stores.ts";
import { ringStore } from "./ring.store.ts";
import type { RingMemberRow, RingRow } from "./ring.table.ts";

type RingInput = { userIds?: readonly string[]; timeoutSeconds?: number; metadata?: Metadata };
type EndedRing = RingRow & { missed: string[] };

type RingDeps = {
  stores: ChatStores;
  /** During a call, the message about the call lists the members who missed it. */
  hasCall: (roomId: string) => boolean;
  /** A member who blocked the caller is not notified, and the caller cannot see that. */
  hasBlocked: (tenant: Tenant, userId: string, blockedUserId: string) => boolean;
  access: AccessRules;
};

const KEEP_MS = 7 * DAY_MS;
const PRUNE_BATCH = 200;

export type RingService = ReturnType<typeof ringService>;

/** Rings members of a conversation into the call of its room. Rings are on disk, and a restart continues them. */
export function ringService({ bus, config, db, ids, log, now, timers, write }: Runtime, deps: RingDeps) {
  const { hasCall, hasBlocked, access } = deps;
  const { conversations, members } = deps.stores;
  const store = ringStore(db);
  const timeouts = new Map<string, () => void>();
  let onMissed: (unit: Unit, ring: EndedRing) => void = () => {};

  function present(row: RingRow): Ring {
    return {
      id: row.publicId,
      conversationId: conversations.find(row.conversationId)?.publicId ?? row.conversationId,
      roomId: row.roomId,
      callerId: row.callerUserId,
      status: row.status,
      members: store.members(row.id).map(({ userId, status }) => ({ userId, status })),
      metadata: row.metadata === null ? null : (JSON.parse(row.metadata) as Metadata),
      startedAt: iso(row.startedAt),
      expiresAt: iso(row.expiresAt),
      endedAt: iso(row.endedAt),
    };
  }

  /** Notifies the caller and the members, except those who blocked the caller. */
  function notify(unit: Unit, type: "call.ringing" | "call.ring_updated", row: RingRow): void {
    const { projectId, environment, conversationId, callerUserId } = row;
    const rung = store.members(row.id).map(({ userId }) => userId);
    const userIds =
      callerUserId === null ? rung : [...rung, callerUserId].filter((userId) => !hasBlocked(row, userId, callerUserId));
    const ring = present(row);
    const frame = { type, conversationId: ring.conversationId, ring };
    bus.publish(unit, "chatPersonal", { projectId, environment, conversationId, userIds, frame });
  }

  function scheduleExpiry({ id, expiresAt }: RingRow): void {
    const expire = () => {
      timeouts.delete(id);
      write((unit) => {
        const row = store.get(id);
        if (row && row.endedAt === null) end(unit, row, "MISSED");
      }).catch((err) => log.error({ err }, "chat: expired ring not marked as missed"));
    };
    timeouts.get(id)?.();
    timeouts.set(id, timers.after(Math.max(0, expiresAt - now()), expire));
  }

  /** `unanswered` is the status of the ring when no member answered. */
  function end(unit: Unit, row: RingRow, unanswered: "MISSED" | "CANCELLED", reportMissed = true): RingRow {
    const at = now();
    for (const { userId, status } of store.members(row.id)) {
      if (status === "RINGING") store.settle(unit, row.id, userId, "MISSED", at);
    }
    const rung = store.members(row.id);
    const has = (status: RingMemberStatus) => rung.some((member) => member.status === status);
    const status = has("ANSWERED") ? "ANSWERED" : has("MISSED") ? unanswered : "DECLINED";
    store.end(unit, row.id, status, at);
    const ended: RingRow = { ...row, status, endedAt: at };
    unit.afterCommit(() => {
      timeouts.get(row.id)?.();
      timeouts.delete(row.id);
    });
    notify(unit, "call.ring_updated", ended);
    const { projectId, environment } = row;
    bus.publish(unit, "webhook", {
      type: "call.ring_ended",
      projectId,
      environment,
      at,
      data: { ring: present(ended) },
    });
    const missed = rung.filter((member) => member.status === "MISSED").map(({ userId }) => userId);
    if (reportMissed && status !== "ANSWERED" && missed.length > 0 && !hasCall(row.roomId)) {
      onMissed(unit, { ...ended, missed });
    }
    return ended;
  }

  /** Records the response of a member; the last one ends the ring. */
  function respond(unit: Unit, row: RingRow, userId: string, status: "ANSWERED" | "DECLINED"): RingRow {
    if (!store.settle(unit, row.id, userId, status, now())) return row;
    if (store.members(row.id).every((member) => member.status !== "RINGING")) return end(unit, row, "MISSED");
    notify(unit, "call.ring_updated", row);
    return row;
  }

  function targets(conversation: ConversationRow, callerId: string | null, named?: readonly string[]): string[] {
    const { id, memberCount } = conversation;
    if (named === undefined && memberCount > MAX_RUNG_MEMBERS + 1) {
      throw invalid("userIds", `is required in a conversation of more than ${MAX_RUNG_MEMBERS} members`);
    }
    const userIds = named ?? members.list(id, "ACTIVE", null, MAX_RUNG_MEMBERS + 1).map(({ userId }) => userId);
    const rung = [...new Set(userIds)].filter((userId) => userId !== callerId);
    for (const userId of rung) {
      if (members.find(id, userId)?.status !== "ACTIVE") throw new ApiError("SVC_MEMBER_NOT_FOUND");
    }
    if (rung.length === 0) throw invalid("userIds", "must name a member other than the caller");
    if (rung.length > MAX_RUNG_MEMBERS) throw invalid("userIds", `must name at most ${MAX_RUNG_MEMBERS} members`);
    return rung;
  }

  function insert(unit: Unit, conversation: ConversationRow, row: RingRow, rung: string[]): void {
    store.insert(unit, row);
    for (const userId of rung) {
      const member: RingMemberRow = { ringId: row.id, userId, status: "RINGING", at: null };
      store.insertMember(unit, member);
    }
    notify(unit, "call.ringing", row);
    const { projectId, environment } = conversation;
    const data = { ring: present(row) };
    bus.publish(unit, "webhook", { type: "call.ringing", projectId, environment, at: row.startedAt, data });
    unit.afterCommit(() => scheduleExpiry(row));
  }

  return {
    present,
    find: store.find,

    /** A ring in a conversation that the caller may read, with the caller's access to it. */
    findFor(caller: ChatCaller, ringId: string): { row: RingRow; access: Access } {
      const row = store.find(ringId);
      if (!row) throw new ApiError("SVC_RING_NOT_FOUND");
      return { row, access: access.byId(caller, row.conversationId, "SVC_RING_NOT_FOUND") };
    },

    /** A caller who rings again in the same conversation gets the ring that is still open. */
    ring(unit: Unit, entered: Access, callerId: string | null, input: RingInput): { ring: Ring; isNew: boolean } {
      const { conversation } = entered;
      const at = now();
      requireActive(entered);
      requireUnmuted(entered, at);
      const { roomId } = conversation;
      if (roomId === null) {
        throw new ApiError("SVC_CONFLICT", "The conversation is attached to no room. Create it with roomId.");
      }
      const open = store.openIn(roomId).find(({ callerUserId }) => callerUserId === callerId);
      if (open) return { ring: present(open), isNew: false };
      const rung = targets(conversation, callerId, input.userIds);
      const { projectId, environment } = conversation;
      const seconds = input.timeoutSeconds ?? config.CHAT_RING_TIMEOUT_SECONDS;
      const row: RingRow = {
        id: ids.uuid(),
        publicId: ids.publicId("ring"),
        projectId,
        environment,
        conversationId: conversation.id,
        roomId,
        callerUserId: callerId,
        status: "RINGING",
        metadata: storedMetadata(input.metadata, config.CHAT_MAX_METADATA_BYTES),
        startedAt: at,
        expiresAt: at + seconds * 1000,
        endedAt: null,
      };
      insert(unit, conversation, row, rung);
      return { ring: present(row), isNew: true };
    },

    /** An answer on one device stops the ring on the others. A repeated answer changes nothing. */
    answer(unit: Unit, row: RingRow, userId: string, status: "ANSWERED" | "DECLINED"): Ring {
      const mine = store.members(row.id).find((member) => member.userId === userId);
      if (!mine) throw new ApiError("SVC_RING_NOT_FOUND");
      if (mine.status === status) return present(row);
      if (row.endedAt !== null || mine.status !== "RINGING") throw new ApiError("SVC_RING_OVER");
      return present(respond(unit, row, userId, status));
    },

    cancel(unit: Unit, row: RingRow): Ring {
      return present(row.endedAt === null ? end(unit, row, "CANCELLED") : row);
    },

    /** Joining the call answers the ring. */
    joined(unit: Unit, roomId: string, identity: string): void {
      for (const row of store.openIn(roomId)) respond(unit, row, identity, "ANSWERED");
    },
    callEnded(unit: Unit, roomId: string): void {
      for (const row of store.openIn(roomId)) end(unit, row, "MISSED", false);
    },
    callerIn: (roomId: string): string | null => store.openIn(roomId)[0]?.callerUserId ?? null,
    /** The listener gets rings that no member answered while there was no call. */
    onMissed(listener: (unit: Unit, ring: EndedRing) => void): void {
      onMissed = listener;
    },

    /** The open rings of a user that a token may read, for a socket that was just opened. */
    ringingFor: (holder: TokenHolder): Ring[] =>
      store
        .openOf(holder, holder.userId)
        .filter((row) => row.callerUserId === null || !hasBlocked(row, holder.userId, row.callerUserId))
        .filter((row) => access.mayRead(holder, row.conversationId))
        .map((row) => present(row)),

    /** Continues the rings of the last run; rings that have expired since are ended now. */
    start(): () => void {
      for (const row of store.open()) scheduleExpiry(row);
      return () => {
        for (const cancel of timeouts.values()) cancel();
        timeouts.clear();
      };
    },

    /** Removes old rings; called by a recurring job. */
    async prune(): Promise<void> {
      while (await write((unit) => store.prune(unit, now() - KEEP_MS, PRUNE_BATCH)));
    },
  };
}
