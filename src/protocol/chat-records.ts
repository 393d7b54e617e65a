/** Records of conversations, shared by REST, the chat socket, webhooks and the browser SDK. */
import { type Static, Type } from "@sinclair/typebox";
import { literals } from "./literals.ts";

export const CONVERSATION_TYPES = ["CHANNEL", "DIRECT", "ROOM"] as const;
export const CONVERSATION_STATUSES = ["ACTIVE", "ARCHIVED"] as const;
export const CHAT_MEMBER_ROLES = ["MEMBER", "MODERATOR", "ADMIN"] as const;
export const CHAT_MEMBER_STATUSES = ["ACTIVE", "LEFT", "BANNED"] as const;
export const MESSAGE_TYPES = ["text", "attachment", "system", "event"] as const;
/** `offline` appears in notifications, never in lists. */
const PRESENCE_STATUSES = ["online", "away", "offline"] as const;
const ATTACHMENT_STATUSES = ["PENDING", "UPLOADED", "EXPIRED"] as const;

const RING_STATUSES = ["RINGING", "ANSWERED", "DECLINED", "MISSED", "CANCELLED"] as const;
const RING_MEMBER_STATUSES = ["RINGING", "ANSWERED", "DECLINED", "MISSED"] as const;

export const REPORT_REASONS = ["spam", "abuse", "hate", "sexual", "violence", "self_harm", "other"] as const;
export const REPORT_STATUSES = ["OPEN", "RESOLVED"] as const;
export const REPORT_ACTIONS = ["none", "delete_message", "mute_sender", "ban_sender"] as const;
export type ReportStatus = (typeof REPORT_STATUSES)[number];
export type ReportAction = (typeof REPORT_ACTIONS)[number];

export type ConversationType = (typeof CONVERSATION_TYPES)[number];
export type ConversationStatus = (typeof CONVERSATION_STATUSES)[number];
export type ChatMemberRole = (typeof CHAT_MEMBER_ROLES)[number];
export type ChatMemberStatus = (typeof CHAT_MEMBER_STATUSES)[number];
export type MessageType = (typeof MESSAGE_TYPES)[number];
export type PresenceStatus = (typeof PRESENCE_STATUSES)[number];
export type AttachmentStatus = (typeof ATTACHMENT_STATUSES)[number];

export type RingStatus = (typeof RING_STATUSES)[number];
export type RingMemberStatus = (typeof RING_MEMBER_STATUSES)[number];

/** The maximum number of members that one ring can call. */
export const MAX_RUNG_MEMBERS = 50;
/** How long a ring may last, in seconds. */
export const RING_SECONDS = { min: 5, max: 300 } as const;
/** The maximum number of members that one message can mention; further mentions are plain text. */
export const MAX_MENTIONS = 20;

/** The maximum number of user ids listed per emoji; `count` is always exact. */
export const REACTION_USERS_SHOWN = 50;
/** The maximum slow mode, in seconds between two messages of one member. */
export const MAX_SLOW_MODE_SECONDS = 120;

const Text = Type.String();
const NullableText = Type.Union([Type.String(), Type.Null()]);
const NullableInteger = Type.Union([Type.Integer(), Type.Null()]);
/** The developer's own JSON, which the server stores and returns without interpreting it. */
export const Metadata = Type.Record(Type.String(), Type.Unknown());
export type Metadata = Static<typeof Metadata>;
const NullableMetadata = Type.Union([Metadata, Type.Null()]);

export const Conversation = Type.Object({
  id: Text,
  uuid: Text,
  name: Text,
  type: literals(CONVERSATION_TYPES),
  status: literals(CONVERSATION_STATUSES),
  roomId: NullableText,
  retentionDays: NullableInteger,
  metadata: NullableMetadata,
  slowModeSeconds: Type.Integer(),
  memberCount: Type.Integer(),
  lastSeq: Type.Integer(),
  lastMessageAt: NullableText,
  createdAt: Text,
  updatedAt: Text,
  /** Present for a chat token: the number of messages that its user has not read. */
  unreadCount: Type.Optional(Type.Integer()),
  /** Present for a chat token: how many of the unread messages mention its user. */
  mentionCount: Type.Optional(Type.Integer()),
});
export type Conversation = Static<typeof Conversation>;

export const ConversationMember = Type.Object({
  userId: Text,
  role: literals(CHAT_MEMBER_ROLES),
  status: literals(CHAT_MEMBER_STATUSES),
  mutedUntil: NullableText,
  /** The display name, if the backend set one. */
  name: Type.Optional(Text),
  metadata: NullableMetadata,
  joinedAt: Text,
  leftAt: NullableText,
});
export type ConversationMember = Static<typeof ConversationMember>;

export const Attachment = Type.Object({
  id: Text,
  conversationId: Text,
  filename: Text,
  mimeType: Text,
  size: Type.Integer(),
  sha256: NullableText,
  status: literals(ATTACHMENT_STATUSES),
  uploaderId: NullableText,
  metadata: NullableMetadata,
  createdAt: Text,
});
export type Attachment = Static<typeof Attachment>;

export const ReactionSummary = Type.Object({
  emoji: Text,
  count: Type.Integer(),
  userIds: Type.Array(Text, { maxItems: REACTION_USERS_SHOWN }),
});
export type ReactionSummary = Static<typeof ReactionSummary>;

/** The sender's name of messages from a backend. */
export const SERVER_NAME = "System";

export const Message = Type.Object({
  id: Text,
  /** The `seq` of the message's creation; later changes have their own. */
  seq: Type.Integer(),
  conversationId: Text,
  /** Null for a backend. */
  senderId: NullableText,
  senderName: Type.String({
    description: "For people to read: the member's name or else its id; `System` for the server",
  }),
  type: literals(MESSAGE_TYPES),
  text: NullableText,
  replyTo: NullableText,
  threadRootId: NullableText,
  replyCount: Type.Integer(),
  clientMessageId: NullableText,
  attachment: Type.Union([Attachment, Type.Null()]),
  metadata: NullableMetadata,
  /** Members that the text mentions as `@user`. */
  mentions: Type.Array(Text, { maxItems: MAX_MENTIONS }),
  reactions: Type.Array(ReactionSummary),
  pinned: Type.Boolean(),
  edited: Type.Boolean(),
  editedAt: NullableText,
  deleted: Type.Boolean(),
  deletedAt: NullableText,
  createdAt: Text,
  updatedAt: Text,
  cursor: Text,
});
export type Message = Static<typeof Message>;

export const MessagePage = Type.Object({
  data: Type.Array(Message),
  nextCursor: NullableText,
  previousCursor: NullableText,
  hasMore: Type.Boolean(),
});
export type MessagePage = Static<typeof MessagePage>;

export const Reaction = Type.Object({
  messageId: Text,
  emoji: Text,
  userId: Text,
  reactions: Type.Array(ReactionSummary),
});
export type Reaction = Static<typeof Reaction>;

export const ReadReceipt = Type.Object({
  userId: Text,
  lastReadMessageId: NullableText,
  lastReadSeq: NullableInteger,
  lastReadAt: NullableText,
});
export type ReadReceipt = Static<typeof ReadReceipt>;

export const ReadState = Type.Object({
  ...ReadReceipt.properties,
  unreadCount: Type.Integer(),
  mentionCount: Type.Integer(),
});
export type ReadState = Static<typeof ReadState>;

export const Unread = Type.Object({
  userId: Text,
  total: Type.Integer(),
  mentions: Type.Integer(),
  conversations: Type.Array(
    Type.Object({ conversationId: Text, unreadCount: Type.Integer(), mentionCount: Type.Integer() }),
  ),
});
export type Unread = Static<typeof Unread>;

export const Presence = Type.Object({ userId: Text, status: literals(PRESENCE_STATUSES), at: Text });
export type Presence = Static<typeof Presence>;

export const Typing = Type.Object({ userId: Text, startedAt: Text, expiresAt: Text });
export type Typing = Static<typeof Typing>;

export const ChatToken = Type.Object({
  token: Text,
  tokenId: Text,
  userId: Text,
  scopes: Type.Array(Text),
  conversations: Type.Union([Type.Array(Text), Type.Null()]),
  endpoint: Text,
  expiresAt: Text,
});
export type ChatToken = Static<typeof ChatToken>;

export const ReportReason = literals(REPORT_REASONS);
export type ReportReason = Static<typeof ReportReason>;

/** A message that was reported to the moderators. */
export const Report = Type.Object({
  id: Text,
  conversationId: Text,
  messageId: Text,
  senderId: NullableText,
  /** Null for a report by the word list. */
  reporterId: NullableText,
  reason: ReportReason,
  note: NullableText,
  status: literals(REPORT_STATUSES),
  action: Type.Union([literals(REPORT_ACTIONS), Type.Null()]),
  /** The current message; null once retention has removed it. */
  message: Type.Union([Message, Type.Null()]),
  createdAt: Text,
  resolvedAt: NullableText,
});
export type Report = Static<typeof Report>;

/** A request to members of a conversation to join the call in its room. */
export const Ring = Type.Object({
  id: Text,
  conversationId: Text,
  roomId: Text,
  /** Null for a backend. */
  callerId: NullableText,
  status: literals(RING_STATUSES),
  members: Type.Array(Type.Object({ userId: Text, status: literals(RING_MEMBER_STATUSES) }), {
    maxItems: MAX_RUNG_MEMBERS,
  }),
  metadata: NullableMetadata,
  startedAt: Text,
  expiresAt: Text,
  endedAt: NullableText,
});
export type Ring = Static<typeof Ring>;

/** The level of Web Push notifications for a member. `mentions`: mentions and rings; `none`: nothing. */
export const NOTIFICATION_LEVELS = ["all", "mentions", "none"] as const;
export const NotificationLevel = literals(NOTIFICATION_LEVELS);
export type NotificationLevel = Static<typeof NotificationLevel>;

/** The content of `event.data.json()` in a service worker. */
export const PushPayload = Type.Object({
  type: literals(["message", "mention", "ring", "missed_call"] as const),
  conversationId: Text,
  conversationName: Text,
  /** The sender of the message or the caller; null for a backend. */
  senderId: NullableText,
  /** The beginning of a message. */
  text: NullableText,
  messageId: NullableText,
  ringId: NullableText,
  roomId: NullableText,
  unreadCount: Type.Integer(),
  /** Equal for notifications that replace each other, like the `tag` of the Notifications API. */
  tag: Text,
  at: Text,
});
export type PushPayload = Static<typeof PushPayload>;
