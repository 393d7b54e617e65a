import { encodeCursor } from "../../kernel/http/cursor.ts";
import { iso } from "../../kernel/time/clock.ts";
import {
  type Attachment,
  type Conversation,
  type ConversationMember,
  type Message,
  type Metadata,
  SERVER_NAME,
} from "../../protocol/chat-records.ts";
import type { ConversationRow, MemberRow } from "./conversations/conversation.table.ts";
import type { MessageRow } from "./messages/message.table.ts";
import type { ChatStores } from "./stores.ts";

export const MESSAGE_CURSOR = "m";

type MessageStores = Pick<ChatStores, "members" | "reactions">;

function parsed<T>(json: string | null): T | null {
  return json === null ? null : (JSON.parse(json) as T);
}

export function attachmentIdOf({ attachment }: Pick<MessageRow, "attachment">): string | null {
  return parsed<Attachment>(attachment)?.id ?? null;
}

export function presentConversation(row: ConversationRow): Conversation {
  return {
    id: row.publicId,
    uuid: row.id,
    name: row.name,
    type: row.type,
    status: row.status,
    roomId: row.roomId,
    retentionDays: row.retentionDays,
    metadata: parsed<Metadata>(row.metadata),
    slowModeSeconds: row.slowModeSeconds,
    memberCount: row.memberCount,
    lastSeq: row.lastSeq,
    lastMessageAt: iso(row.lastMessageAt),
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
  };
}

export function presentMember(row: MemberRow): ConversationMember {
  return {
    userId: row.userId,
    role: row.role,
    status: row.status,
    mutedUntil: iso(row.mutedUntil),
    ...(row.name === null ? {} : { name: row.name }),
    metadata: parsed<Metadata>(row.metadata),
    joinedAt: iso(row.joinedAt),
    leftAt: iso(row.leftAt),
  };
}

export function presentMessage(
  conversation: ConversationRow,
  row: MessageRow,
  stores: MessageStores,
  senderName = senderNameOf(row, stores),
): Message {
  const createdAt = iso(row.createdAt);
  return {
    id: row.publicId,
    seq: row.seq,
    conversationId: conversation.publicId,
    senderId: row.senderId,
    senderName,
    type: row.type,
    text: row.text,
    replyTo: row.replyTo,
    threadRootId: row.threadRootId,
    replyCount: row.replyCount,
    clientMessageId: row.clientMessageId,
    attachment: parsed<Attachment>(row.attachment),
    metadata: parsed<Metadata>(row.metadata),
    mentions: parsed<string[]>(row.mentions) ?? [],
    reactions: row.reactionCount === 0 ? [] : stores.reactions.summary(row.id),
    pinned: row.pinnedAt !== null,
    edited: row.editedAt !== null,
    editedAt: iso(row.editedAt),
    deleted: row.deletedAt !== null,
    deletedAt: iso(row.deletedAt),
    createdAt,
    updatedAt: row.updatedAt === row.createdAt ? createdAt : iso(row.updatedAt),
    cursor: encodeCursor(MESSAGE_CURSOR, [row.seq]),
  };
}

function senderNameOf({ conversationId, senderId }: MessageRow, { members }: MessageStores): string {
  return senderId === null ? SERVER_NAME : members.nameOf(conversationId, senderId);
}
