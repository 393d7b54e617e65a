import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ChatService } from "../chat/chat.ts";
import type { PushStore } from "./push.store.ts";
import type { PushKind, QueuedRow } from "./push.table.ts";
import type { SubscriptionService } from "./subscription.service.ts";

type FanOutDeps = { store: PushStore; subscriptions: SubscriptionService; chat: ChatService };

/** Members per unit of work. */
const MEMBERS_PER_BATCH = 200;

/**
 * Queues messages and rings in the transaction that stores them. It selects the members who get a push later, in small
 * steps: those without an open socket that reads the conversation, whose settings allow it and who have not read the
 * message.
 */
export function createFanOut(
  { bus, config, now }: Runtime,
  { store, subscriptions, chat }: FanOutDeps,
  wakeDispatcher: () => void,
) {
  function enqueue(unit: Unit, row: Omit<QueuedRow, "id" | "position">): void {
    store.enqueue(unit, { ...row, position: "" });
    unit.afterCommit(wakeDispatcher);
  }

  bus.inTransaction("chatEvent", (unit, { conversation, event }) => {
    if (event.type !== "message" || !subscriptions.hasSubscribers(conversation)) return;
    // Messages about calls are left out, because calls are pushed as rings and missed calls.
    if (event.message.type === "event") return;
    const { projectId, environment, id: conversationId } = conversation;
    const subjectId = event.message.id;
    enqueue(unit, { projectId, environment, kind: "message", conversationId, subjectId, createdAt: now() });
  });
  bus.inTransaction("webhook", ["call.ringing", "call.ring_ended"], (unit, event) => {
    if (!subscriptions.hasSubscribers(event)) return;
    const { projectId, environment, at: createdAt } = event;
    const { ring } = event.data;
    const conversationId = chat.rings.find(ring.id)?.conversationId;
    if (conversationId === undefined) return;
    const kind = event.type === "call.ringing" ? "ring" : "missed_call";
    if (kind === "missed_call") {
      store.dropRing(unit, conversationId, ring.id);
      if (!ring.members.some(({ status }) => status === "MISSED")) return;
    }
    enqueue(unit, { projectId, environment, kind, conversationId, subjectId: ring.id, createdAt });
  });

  /** The kind of push that this member gets; null if none. */
  function kindFor(row: QueuedRow, userId: string): PushKind | null {
    if (chat.sockets.hub.isReading(row, userId, row.conversationId)) return null;
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

  /** The members who were rung, or the next batch of members for a message. */
  function recipients(row: QueuedRow): { userIds: string[]; isLast: boolean } {
    if (row.kind === "message") {
      const userIds = store.members(row.conversationId, row.position, MEMBERS_PER_BATCH);
      return { userIds, isLast: userIds.length < MEMBERS_PER_BATCH };
    }
    const ring = chat.rings.find(row.subjectId);
    const members = ring ? chat.rings.present(ring).members : [];
    const wanted = row.kind === "ring" ? "RINGING" : "MISSED";
    const caller = ring?.callerUserId;
    const userIds = members
      .filter(({ userId, status }) => status === wanted && !(caller && chat.blocks.hasBlocked(row, userId, caller)))
      .map(({ userId }) => userId);
    return { userIds, isLast: true };
  }

  function expiryOf(row: QueuedRow): number {
    if (row.kind === "ring") return chat.rings.find(row.subjectId)?.expiresAt ?? now();
    return row.createdAt + config.PUSH_TTL_SECONDS * 1000;
  }

  /** Processes one batch of the oldest queued event. Returns the push services to notify; null when the queue is empty. */
  return (unit: Unit): Set<string> | null => {
    const row = store.firstQueued();
    if (!row) return null;
    const origins = new Set<string>();
    const { userIds, isLast } = recipients(row);
    const expiresAt = expiryOf(row);
    const { conversationId, subjectId } = row;
    for (const subscription of store.ofUsers(row, userIds)) {
      if (!subscriptions.mayReceive(subscription, conversationId)) continue;
      const kind = kindFor(row, subscription.userId);
      if (kind === null || expiresAt <= now()) continue;
      const { origin } = new URL(subscription.endpoint);
      origins.add(origin);
      const topic = topicOf(kind, row.kind === "message" ? conversationId : subjectId);
      store.saveDelivery(unit, {
        subscriptionId: subscription.id,
        origin,
        kind,
        topic,
        conversationId,
        subjectId,
        attemptCount: 0,
        nextAttemptAt: now(),
        expiresAt,
      });
    }
    if (isLast) store.dequeue(unit, row.id);
    else store.advance(unit, row.id, userIds.at(-1) ?? "");
    return origins;
  };
}

/**
 * A push replaces an earlier one of the same topic: at most 32 characters of base64url (RFC 8030). The last message of a
 * conversation is enough, but it must not replace a mention; a missed call replaces its ring.
 */
function topicOf(kind: PushKind, subjectId: string): string {
  const subject = kind === "missed_call" ? "ring" : kind;
  return new Bun.CryptoHasher("sha256").update(`${subject} ${subjectId}`).digest("base64url").slice(0, 32);
}
