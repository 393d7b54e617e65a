import { iso } from "../../../kernel/clock.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { MAX_RUNG_MEMBERS, type Metadata, type Ring, type RingMemberStatus } from "../../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import { type Access, requireActive, requireUnmuted } from "../access.ts";
import type { ConversationStore } from "../conversations/conversation.store.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import type { MemberStore } from "../conversations/member.store.ts";
import { storedMetadata } from "../input.ts";
import type { RingStore } from "./ring.store.ts";
import type { RingMemberRow, RingRow } from "./ring.table.ts";

export type RingInput = { userIds?: readonly string[]; timeoutSeconds?: number; metadata?: Metadata };
type EndedRing = RingRow & { missed: string[] };

type RingDeps = {
  store: RingStore;
  conversations: ConversationStore;
  members: MemberStore;
  /** Whether there is a call in the room now, whose own message will tell who missed it. */
  isCallOn: (roomId: string) => boolean;
  /** Whoever blocked the caller hears nothing, and the caller cannot tell. */
  hasBlocked: (tenant: Tenant, userId: string, blockedUserId: string) => boolean;
};

const KEPT_MS = 7 * 86_400_000;
const PRUNED_AT_ONCE = 200;

export type RingService = ReturnType<typeof ringService>;

/** Asking members of a conversation into the call of its room. Each ring is on disk: a restart goes on with it. */
export function ringService({ bus, config, ids, log, now, timers, write }: Runtime, deps: RingDeps) {
  const { store, conversations, members, isCallOn, hasBlocked } = deps;
  const timeouts = new Map<string, () => void>();
  let onMissed: (unit: Unit, ring: EndedRing) => void = () => {};

  function show(row: RingRow, rung = store.members(row.id)): Ring {
    return {
      id: row.publicId,
      conversationId: conversations.find(row.conversationId)?.publicId ?? row.conversationId,
      roomId: row.roomId,
      callerId: row.callerUserId,
      status: row.status,
      members: rung.map(({ userId, status }) => ({ userId, status })),
      metadata: row.metadata === null ? null : (JSON.parse(row.metadata) as Metadata),
      startedAt: iso(row.startedAt),
      expiresAt: iso(row.expiresAt),
      endedAt: iso(row.endedAt),
    };
  }

  /** To whoever takes part in it; those who blocked the caller never hear of it. */
  function tell(unit: Unit, type: "call.ringing" | "call.ring_updated", row: RingRow, userIds: string[]): void {
    const { projectId, environment, callerUserId } = row;
    const listening = userIds.filter((userId) => callerUserId === null || !hasBlocked(row, userId, callerUserId));
    const ring = show(row);
    const frame = { type, conversationId: ring.conversationId, ring };
    bus.publish(unit, "chatPersonal", { projectId, environment, userIds: listening, frame });
  }

  function everybody(row: RingRow): string[] {
    const rung = store.members(row.id).map(({ userId }) => userId);
    return row.callerUserId === null ? rung : [...rung, row.callerUserId];
  }

  function arm({ id, expiresAt }: RingRow): void {
    const expire = () => {
      timeouts.delete(id);
      write((unit) => {
        const row = store.get(id);
        if (row && row.endedAt === null) end(unit, row, "MISSED");
      }).catch((err) => log.error({ err }, "a ring was not ended"));
    };
    timeouts.get(id)?.();
    timeouts.set(id, timers.after(Math.max(0, expiresAt - now()), expire));
  }

  /** `how` is what it comes to when nobody answered. */
  function end(unit: Unit, row: RingRow, how: "MISSED" | "CANCELLED", tellMissed = true): RingRow {
    const at = now();
    for (const { userId, status } of store.members(row.id)) {
      if (status === "RINGING") store.settle(unit, row.id, userId, "MISSED", at);
    }
    const rung = store.members(row.id);
    const has = (status: RingMemberStatus) => rung.some((member) => member.status === status);
    const status = has("ANSWERED") ? "ANSWERED" : has("MISSED") ? how : "DECLINED";
    store.end(unit, row.id, status, at);
    const ended: RingRow = { ...row, status, endedAt: at };
    unit.afterCommit(() => {
      timeouts.get(row.id)?.();
      timeouts.delete(row.id);
    });
    tell(unit, "call.ring_updated", ended, everybody(ended));
    const { projectId, environment } = row;
    bus.publish(unit, "webhook", { type: "call.ring_ended", projectId, environment, at, data: { ring: show(ended) } });
    const missed = rung.filter((member) => member.status === "MISSED").map(({ userId }) => userId);
    if (tellMissed && status !== "ANSWERED" && missed.length > 0 && !isCallOn(row.roomId)) {
      onMissed(unit, { ...ended, missed });
    }
    return ended;
  }

  /** A member's answer; the ring ends with the last of them. */
  function settle(unit: Unit, row: RingRow, userId: string, status: "ANSWERED" | "DECLINED"): RingRow {
    if (!store.settle(unit, row.id, userId, status, now())) return row;
    if (store.members(row.id).every((member) => member.status !== "RINGING")) return end(unit, row, "MISSED");
    tell(unit, "call.ring_updated", row, everybody(row));
    return row;
  }

  function targets(access: Access, callerId: string | null, named: readonly string[] | undefined): string[] {
    const { id, memberCount } = access.conversation;
    if (named === undefined && memberCount > MAX_RUNG_MEMBERS + 1) {
      throw invalid("userIds", `is required in a conversation of more than ${MAX_RUNG_MEMBERS} members`);
    }
    const userIds = named ?? members.list(id, "ACTIVE", null, MAX_RUNG_MEMBERS + 1).map(({ userId }) => userId);
    const rung = [...new Set(userIds)].filter((userId) => userId !== callerId);
    for (const userId of rung) {
      if (members.find(id, userId)?.status !== "ACTIVE") throw new ApiError("SVC_MEMBER_NOT_FOUND");
    }
    if (rung.length === 0) throw invalid("userIds", "names nobody else");
    if (rung.length > MAX_RUNG_MEMBERS) throw invalid("userIds", `must name at most ${MAX_RUNG_MEMBERS} members`);
    return rung;
  }

  function insert(unit: Unit, conversation: ConversationRow, row: RingRow, rung: string[]): void {
    store.insert(unit, row);
    for (const userId of rung) {
      const member: RingMemberRow = { ringId: row.id, userId, status: "RINGING", at: null };
      store.insertMember(unit, member);
    }
    tell(unit, "call.ringing", row, everybody(row));
    const { projectId, environment } = conversation;
    const data = { ring: show(row) };
    bus.publish(unit, "webhook", { type: "call.ringing", projectId, environment, at: row.startedAt, data });
    unit.afterCommit(() => arm(row));
  }

  return {
    show,
    find: store.find,

    /** Once at a time: a caller who rings again in the same conversation gets the ring that goes on. */
    ring(unit: Unit, access: Access, callerId: string | null, input: RingInput): { ring: Ring; begun: boolean } {
      const { conversation } = access;
      const at = now();
      requireActive(access);
      requireUnmuted(access, at);
      const { roomId } = conversation;
      if (roomId === null) {
        throw new ApiError("SVC_CONFLICT", "The conversation is attached to no room. Create it with roomId.");
      }
      const going = store.openIn(roomId).find(({ callerUserId }) => callerUserId === callerId);
      if (going) return { ring: show(going), begun: false };
      const rung = targets(access, callerId, input.userIds);
      const { projectId, environment } = conversation;
      const seconds = input.timeoutSeconds ?? config.CHAT_RING_TIMEOUT_SECONDS;
      const row: RingRow = {
        ...{ id: ids.uuid(), publicId: ids.publicId("ring"), projectId, environment },
        ...{ conversationId: conversation.id, roomId, callerUserId: callerId, status: "RINGING" },
        metadata: storedMetadata(input.metadata, config.CHAT_MAX_METADATA_BYTES),
        ...{ startedAt: at, expiresAt: at + seconds * 1000, endedAt: null },
      };
      insert(unit, conversation, row, rung);
      return { ring: show(row), begun: true };
    },

    /** Answered once on one device, every other stops; again: the same answer. */
    answer(unit: Unit, row: RingRow, userId: string, status: "ANSWERED" | "DECLINED"): Ring {
      const mine = store.members(row.id).find((member) => member.userId === userId);
      if (!mine) throw new ApiError("SVC_RING_NOT_FOUND");
      if (mine.status === status) return show(row);
      if (row.endedAt !== null || mine.status !== "RINGING") throw new ApiError("SVC_RING_OVER");
      return show(settle(unit, row, userId, status));
    },

    /** By whoever rang. */
    cancel(unit: Unit, row: RingRow): Ring {
      return show(row.endedAt === null ? end(unit, row, "CANCELLED") : row);
    },

    /** Who is in the call has answered, and whoever rang has come. */
    joined(unit: Unit, roomId: string, identity: string): void {
      for (const row of store.openIn(roomId)) settle(unit, row, identity, "ANSWERED");
    },
    /** Nobody is there any more to be joined. */
    callEnded(unit: Unit, roomId: string): void {
      for (const row of store.openIn(roomId)) end(unit, row, "MISSED", false);
    },
    callerIn: (roomId: string): string | null => store.openIn(roomId)[0]?.callerUserId ?? null,
    /** Told of rings that nobody answered while there was no call. */
    onMissed(listener: (unit: Unit, ring: EndedRing) => void): void {
      onMissed = listener;
    },

    /** Those that ring for a user now, for a socket that has just opened. */
    ringingFor: (tenant: Tenant, userId: string): Ring[] =>
      store
        .openOf(tenant, userId)
        .filter((row) => row.callerUserId === null || !hasBlocked(row, userId, row.callerUserId))
        .map((row) => show(row)),

    /** Goes on with what the last run left; what ran out meanwhile ends now. */
    start(): () => void {
      for (const row of store.open()) arm(row);
      return () => {
        for (const cancel of timeouts.values()) cancel();
        timeouts.clear();
      };
    },

    /** Forgets rings of long ago, a few at a time; called by a job. */
    async prune(): Promise<void> {
      while (await write((unit) => store.prune(unit, now() - KEPT_MS, PRUNED_AT_ONCE)));
    },
  };
}
