import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { iso } from "../../../kernel/time/clock.ts";
import type { ReadReceipt, ReadState, Unread } from "../../../protocol/chat-records.ts";
import type { MessageAccess } from "../access.ts";
import type { ConversationRow } from "../conversations/conversation.table.ts";
import { type ReceiptRow, readStateStore, type UnreadCounts } from "./read-state.store.ts";

export function readStateService({ bus, db, now }: Runtime) {
  const store = readStateStore(db);

  const presentReceipt = (row: ReceiptRow): ReadReceipt => ({
    userId: row.userId,
    lastReadMessageId: row.lastReadMessageId ?? null,
    lastReadSeq: row.lastReadSeq ?? null,
    lastReadAt: iso(row.lastReadAt ?? null),
  });

  function of(conversation: ConversationRow, userId: string): ReadState {
    const row = store.find(conversation.id, userId);
    return { ...presentReceipt({ ...row, userId, joinedAt: 0 }), ...store.unread(conversation.id, userId) };
  }

  return {
    of,
    unread: (conversation: ConversationRow, userId: string): UnreadCounts => store.unread(conversation.id, userId),
    hasRead: (conversationId: string, userId: string, seq: number): boolean =>
      (store.find(conversationId, userId)?.lastReadSeq ?? 0) >= seq,
    receipts: store.receipts,
    presentReceipt,

    /** Marks this message and all earlier ones as read. The position only moves forward and is not a durable event. */
    mark(unit: Unit, { access, message }: MessageAccess, userId: string): ReadState {
      const { conversation } = access;
      const at = now();
      const moved = store.mark(unit, {
        conversationId: conversation.id,
        userId,
        lastReadMessageId: message.publicId,
        lastReadSeq: message.seq,
        lastReadOrdinal: message.ordinal,
        lastReadAt: at,
      });
      if (moved) {
        const { publicId: conversationId } = conversation;
        const { publicId: messageId, seq } = message;
        bus.publish(unit, "chatSignal", {
          conversationId: conversation.id,
          signal: { type: "read", conversationId, userId, messageId, seq, at: iso(at) },
        });
      }
      return of(conversation, userId);
    },

    unreadOf(tenant: Tenant, userId: string, within: string[] | null): Unread {
      const conversations = store.unreadOfUser(tenant, userId, within).filter(({ unreadCount }) => unreadCount > 0);
      const total = conversations.reduce((sum, { unreadCount }) => sum + unreadCount, 0);
      const mentions = conversations.reduce((sum, { mentionCount }) => sum + mentionCount, 0);
      return { userId, total, mentions, conversations };
    },
  };
}
