import { Type } from "@sinclair/typebox";
import { t } from "elysia";
import { NullableTimestamp, nullable, oneOf, Timestamp } from "../../../kernel/http/schema.ts";
import { Conversation, MESSAGE_TYPES } from "../../../protocol/chat-records.ts";

/** Metadata only: none of these has a field that could hold what somebody wrote. */

export const ChatOverview = t.Object({
  conversations: Type.Integer(),
  activeConversations: Type.Integer(),
  messages: Type.Integer(),
  messagesToday: Type.Integer(),
  members: Type.Integer(),
  connections: Type.Integer(),
  reactions: Type.Integer(),
  attachments: Type.Integer(),
  attachmentBytes: Type.Integer(),
});

export const ChatConnection = t.Object({
  connectionId: t.String(),
  userId: t.String(),
  conversations: t.Array(t.String()),
  connectedAt: Timestamp,
  disconnectedAt: NullableTimestamp,
  closeCode: nullable(Type.Integer()),
  messagesSent: Type.Integer(),
  userAgent: nullable(t.String()),
  ipAddress: nullable(t.String()),
});

export const ConversationSummary = t.Object({
  ...Conversation.properties,
  messageCount: Type.Integer(),
  lastActivityAt: Timestamp,
});

export const MessageSummary = t.Object({
  id: t.String(),
  seq: Type.Integer(),
  senderId: nullable(t.String()),
  type: oneOf(MESSAGE_TYPES),
  status: oneOf(["sent", "edited", "deleted"]),
  threadRootId: nullable(t.String()),
  replyCount: Type.Integer(),
  reactionCount: Type.Integer(),
  hasAttachment: t.Boolean(),
  createdAt: Timestamp,
  editedAt: NullableTimestamp,
  deletedAt: NullableTimestamp,
});
