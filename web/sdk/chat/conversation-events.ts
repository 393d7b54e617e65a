import type { ChatEvent } from "../../../src/protocol/chat-events.ts";
import type {
  ConversationMember,
  Conversation as ConversationRecord,
  Presence,
  Typing,
} from "../../../src/protocol/chat-records.ts";
import type { Emitter } from "../emitter.ts";
import type { LocalMessage, Timeline } from "./timeline.ts";

/** What a conversation tells of, by name; listen with `conversation.on(name, …)`. */
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

/** Tells the page of a durable event, by the name it has there. */
export function emitEvent(page: Emitter<ConversationEvents>, event: ChatEvent, timeline: Timeline): void {
  switch (event.type) {
    case "message":
      page.emit("message", timeline.find(event.message.id) ?? { ...event.message, status: "sent" });
      break;
    case "message.updated":
      page.emit("messageUpdated", { ...event.message, status: "sent" });
      break;
    case "message.deleted":
      page.emit("messageDeleted", { id: event.messageId, deletedBy: event.deletedBy });
      break;
    case "reaction.added":
      page.emit("reactionAdded", event);
      break;
    case "reaction.removed":
      page.emit("reactionRemoved", event);
      break;
    case "member.joined":
      page.emit("memberJoined", event.member);
      break;
    case "member.left":
      page.emit("memberLeft", event.member);
      break;
    case "member.updated":
      page.emit("memberUpdated", event.member);
      break;
    case "conversation.updated":
      page.emit("conversationUpdated", event.conversation);
      break;
  }
}
