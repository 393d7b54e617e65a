import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Ring } from "../../protocol/chat-records.ts";
import type { ChatService } from "../chat/chat.ts";
import type { PushStore } from "./push.store.ts";
import type { PushKind, QueuedRow } from "./push.table.ts";
import type { SubscriptionService } from "./subscription.service.ts";
import { topicOf } from "./topic.ts";

type FanOutDeps = { store: PushStore; subscriptions: SubscriptionService; chat: ChatService };

/** Members looked at in one unit of work. */
const MEMBERS_AT_ONCE = 200;

/**
 * Writes down what happened in the transaction that made it true, and decides later, and without hurry, who is to be
 * woken for it: members without an open socket who want it and have not read it.
 */
export function createFanOut(
  { bus, config, now }: Runtime,
  { store, subscriptions, chat }: FanOutDeps,
  wake: () => void,
) {
  function enqueue(unit: Unit, row: Omit<QueuedRow, "id" | "position">): void {
    store.enqueue(unit, { ...row, position: "" });
    unit.afterCommit(wake);
  }

  bus.inTransaction("chatEvent", (unit, { conversation, event }) => {
    // What the server tells of calls is pushed as a ring and as a missed call.
    if (event.type !== "message" || event.message.type === "event" || !subscriptions.hasSubscribers(conversation)) return;
    const { projectId, environment, id: conversationId } = conversation;
    enqueue(unit, {
      projectId,
      environment,
      kind: "message",
      conversationId,
      subjectId: event.message.id,
      createdAt: now(),
    });
  });
  bus.inTransaction("webhook", ["call.ringing", "call.ring_ended"], (unit, fact) => {
    if (!subscriptions.hasSubscribers(fact)) return;
    const { projectId, environment, at: createdAt } = fact;
    const { ring } = fact.data;
    const conversationId = chat.rings.find(ring.id)?.conversationId;
    if (conversationId === undefined) return;
    const kind = fact.type === "call.ringing" ? "ring" : "missed_call";
    // Nobody is to be woken any more for a call that is over.
    if (kind === "missed_call") store.dropTopic(unit, topicOf("ring", ring.id), "ring");
    if (kind === "missed_call" && missedBy(ring).length === 0) return;
    enqueue(unit, { projectId, environment, kind, conversationId, subjectId: ring.id, createdAt });
  });

  /** Whether this member is to be woken, and as what. */
  function kindFor(row: QueuedRow, userId: string): PushKind | null {
    if (chat.sockets.hub.isOpen(row, userId)) return null;
    const { level, mutedUntil } = subscriptions.setting(row.conversationId, userId);
    if (level === "none" || (mutedUntil !== null && mutedUntil > now())) return null;
    if (row.kind !== "message") return row.kind;
    const message = chat.messages.store.find(row.subjectId);
    if (!message || message.deletedAt !== null || message.senderId === userId) return null;
    const { senderId } = message;
    if (senderId !== null && chat.blocks.hasBlocked(row, userId, senderId)) return null;
    if (chat.readStates.hasRead(row.conversationId, userId, message.seq)) return null;
    const isMentioned = message.mentions !== null && (JSON.parse(message.mentions) as string[]).includes(userId);
    if (isMentioned) return "mention";
    return level === "all" ? "message" : null;
  }

  /** Whom a ring is about; everybody for a message, page by page. */
  function page(row: QueuedRow): { userIds: string[]; isLast: boolean } {
    if (row.kind === "message") {
      const userIds = store.members(row.conversationId, row.position, MEMBERS_AT_ONCE);
      return { userIds, isLast: userIds.length < MEMBERS_AT_ONCE };
    }
    const ring = chat.rings.find(row.subjectId);
    const wanted = row.kind === "ring" ? "RINGING" : "MISSED";
    const rung = ring ? chat.rings.present(ring).members.filter(({ status }) => status === wanted) : [];
    const heard = rung.filter(
      ({ userId }) => !ring?.callerUserId || !chat.blocks.hasBlocked(row, userId, ring.callerUserId),
    );
    return { userIds: heard.map(({ userId }) => userId), isLast: true };
  }

  function expiryOf(row: QueuedRow): number {
    if (row.kind === "ring") return chat.rings.find(row.subjectId)?.expiresAt ?? now();
    return row.createdAt + config.PUSH_TTL_SECONDS * 1000;
  }

  /** One step: some members of the oldest that waits. False when nothing waits. */
  return (unit: Unit): boolean => {
    const row = store.queued();
    if (!row) return false;
    const { userIds, isLast } = page(row);
    const expiresAt = expiryOf(row);
    for (const { id: subscriptionId, userId } of store.ofUsers(row, userIds)) {
      const kind = kindFor(row, userId);
      if (kind === null || expiresAt <= now()) continue;
      const subject = row.kind === "message" ? row.conversationId : row.subjectId;
      const topic = topicOf(kind, subject);
      const { conversationId, subjectId } = row;
      store.put(unit, { subscriptionId, kind, topic, conversationId, subjectId, nextAttemptAt: now(), expiresAt });
    }
    if (isLast) store.done(unit, row.id);
    else store.advance(unit, row.id, userIds.at(-1) ?? "");
    return true;
  };
}

function missedBy(ring: Ring): string[] {
  return ring.members.filter(({ status }) => status === "MISSED").map(({ userId }) => userId);
}
