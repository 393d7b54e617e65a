import { t } from "elysia";
import { NullableTimestamp, nullable, oneOf, Timestamp } from "../../kernel/http/schema.ts";
import { Conversation, MESSAGE_TYPES } from "../../protocol/chat-records.ts";

/** Metadata only: none of these has a field that could hold what somebody wrote. */

export const ChatOverview = t.Object({
  conversations: t.Integer(),
  activeConversations: t.Integer(),
  messages: t.Integer(),
  messagesToday: t.Integer(),
  members: t.Integer(),
  connections: t.Integer(),
  reactions: t.Integer(),
  attachments: t.Integer(),
  attachmentBytes: t.Integer(),
});

export const ChatConnection = t.Object({
  connectionId: t.String(),
  userId: t.String(),
  conversations: t.Array(t.String()),
  connectedAt: Timestamp,
  disconnectedAt: NullableTimestamp,
  closeCode: nullable(t.Integer()),
  messagesSent: t.Integer(),
  userAgent: nullable(t.String()),
  ipAddress: nullable(t.String()),
});

export const ConversationSummary = t.Object({
  ...Conversation.properties,
  messageCount: t.Integer(),
  lastActivityAt: Timestamp,
});

export const MessageSummary = t.Object({
  id: t.String(),
  seq: t.Integer(),
  senderId: nullable(t.String()),
  type: oneOf(MESSAGE_TYPES),
  status: oneOf(["sent", "edited", "deleted"]),
  threadRootId: nullable(t.String()),
  replyCount: t.Integer(),
  reactionCount: t.Integer(),
  hasAttachment: t.Boolean(),
  createdAt: Timestamp,
  editedAt: NullableTimestamp,
  deletedAt: NullableTimestamp,
});
