import { type Static, Type } from "@sinclair/typebox";
import { t } from "elysia";
import {
  anyNumber,
  Identity,
  Name,
  NullableTimestamp,
  nullable,
  oneOf,
  QueryBoolean,
  Timestamp,
  wholeNumber,
} from "../../kernel/http/schema.ts";
import {
  CHAT_MEMBER_ROLES,
  CHAT_MEMBER_STATUSES,
  CONVERSATION_STATUSES,
  CONVERSATION_TYPES,
  Conversation,
  MAX_SLOW_MODE_SECONDS,
  MESSAGE_TYPES,
  Message,
} from "../../protocol/chat-records.ts";

const Metadata = t.Record(t.String(), t.Unknown(), { description: "Any JSON object; bounded in bytes of UTF-8" });
const Role = oneOf(CHAT_MEMBER_ROLES);
const RetentionDays = wholeNumber({ min: 1, max: 3650 });

const optionalText = (maxLength: number) => t.Optional(t.String({ maxLength }));
const OptionalIdentity = t.Optional(t.Union([Identity, t.Literal("")]));

// The service counts code points.
const DisplayName = t.String({ maxLength: 256, description: "For people to read: any text of at most 128 characters" });

export const AddMember = t.Object({
  userId: Identity,
  role: t.Optional(Role),
  name: t.Optional(DisplayName),
  metadata: t.Optional(Metadata),
});
export type AddMember = Static<typeof AddMember>;

export const UpdateMember = t.Object({
  role: t.Optional(Role),
  mutedUntil: t.Optional(nullable(Timestamp)),
  status: t.Optional(oneOf(["ACTIVE", "BANNED"])),
  name: t.Optional(nullable(DisplayName)),
  metadata: t.Optional(nullable(Metadata)),
});
export type UpdateMember = Static<typeof UpdateMember>;

export const MemberStatus = oneOf(CHAT_MEMBER_STATUSES);
export const ConversationStatus = oneOf(CONVERSATION_STATUSES);

export const CreateConversation = t.Object({
  name: Name,
  type: t.Optional(oneOf(CONVERSATION_TYPES)),
  roomId: optionalText(64),
  retentionDays: t.Optional(RetentionDays),
  members: t.Optional(t.Array(AddMember, { maxItems: 1000 })),
  metadata: t.Optional(Metadata),
});
export type CreateConversation = Static<typeof CreateConversation>;

export const UpdateConversation = t.Object({
  name: t.Optional(Name),
  status: t.Optional(ConversationStatus),
  retentionDays: t.Optional(nullable(RetentionDays)),
  metadata: t.Optional(nullable(Metadata)),
  slowModeSeconds: t.Optional(wholeNumber({ min: 0, max: MAX_SLOW_MODE_SECONDS })),
});
export type UpdateConversation = Static<typeof UpdateConversation>;

export const SendMessage = t.Object({
  // The service checks the length in code points.
  text: t.Optional(t.String()),
  type: t.Optional(t.String({ description: "`text`, `attachment`; servers also `system`, `event`" })),
  replyTo: optionalText(64),
  clientMessageId: optionalText(128),
  attachmentId: optionalText(64),
  metadata: t.Optional(Metadata),
  // Only a backend's request may set it: a user always sends under the own id.
  senderId: OptionalIdentity,
  clientSentAt: t.Optional(anyNumber({ min: 0, description: "Epoch milliseconds; for measuring latency only" })),
});
export type SendMessage = Static<typeof SendMessage>;

export const EditMessage = t.Object({ text: t.Optional(t.String()), metadata: t.Optional(nullable(Metadata)) });
export type EditMessage = Static<typeof EditMessage>;

export const SentMessage = t.Object({ ...Message.properties, deduplicated: t.Boolean() });

export const AddReaction = t.Object({ emoji: t.String({ maxLength: 256 }), userId: OptionalIdentity });

/** The user for whom a backend acts; ignored for a chat token. */
export const NamedUser = t.Object({ userId: OptionalIdentity });

export const MintChatToken = t.Object({
  userId: Identity,
  conversations: t.Optional(t.Array(t.String({ minLength: 1, maxLength: 128 }), { maxItems: 100 })),
  scopes: t.Optional(t.Array(t.String(), { maxItems: 16 })),
  ttlSeconds: t.Optional(wholeNumber()),
  push: t.Optional(
    t.Literal("keep", {
      description: "Push subscriptions made with the token stay when it expires; without it they end with the token",
    }),
  ),
});
export type MintChatToken = Static<typeof MintChatToken>;

export const BooleanQuery = t.Optional(QueryBoolean);

// The dashboard's schemas have no field that could hold the content of a message.

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
