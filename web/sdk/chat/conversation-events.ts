import type {
  ConversationMember,
  Conversation as ConversationRecord,
  Presence,
  Typing,
} from "../../../src/protocol/chat-records.ts";
import type { LocalMessage } from "./timeline.ts";

export type ConversationEvents = {
  message: [message: LocalMessage];
  messageUpdated: [message: LocalMessage];
  messageDeleted: [message: { id: string; deletedBy: string | null }];
  reactionAdded: [reaction: { messageId: string; userId: string; emoji: string }];
  reactionRemoved: [reaction: { messageId: string; userId: string; emoji: string }];
  memberJoined: [member: ConversationMember];
  memberLeft: [member: ConversationMember];
  memberUpdated: [member: ConversationMember];
  conversationUpdated: [conversation: ConversationRecord];
  streamUpdated: [stream: { streamId: string; status: string; viewerCount: number | null }];
  typingChanged: [typing: readonly Typing[]];
  presenceChanged: [presence: Presence];
  read: [receipt: { userId: string; messageId: string; seq: number; at: string }];
  /** Anything that `messages` shows has changed: render again. */
  messagesChanged: [messages: readonly LocalMessage[]];
  /** So much was missed that `messages` was read anew. */
  reset: [];
};
