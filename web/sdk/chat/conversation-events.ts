import type { ChatEvent } from "../../../src/protocol/chat-events.ts";
import type {
  ConversationMember,
  Conversation as ConversationRecord,
  Presence,
  Typing,
} from "../../../src/protocol/chat-records.ts";
import type { Emitter } from "../../../src/protocol/data/emitter.ts";
import type { LocalMessage, Timeline } from "./timeline.ts";

/** The events of a conversation and their arguments; listen with `conversation.on(name, …)`. */
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
  /** `messages` has changed: render it again. */
  messagesChanged: [messages: readonly LocalMessage[]];
  /** Too many events were missed during a disconnection, so `messages` was reloaded. */
  reset: [];
};

/** Emits a durable server event under its name in the SDK. */
export function emitEvent(emitter: Emitter<ConversationEvents>, event: ChatEvent, timeline: Timeline): void {
  switch (event.type) {
    case "message":
      emitter.emit("message", timeline.find(event.message.id) ?? { ...event.message, status: "sent" });
      break;
    case "message.updated":
      emitter.emit("messageUpdated", { ...event.message, status: "sent" });
      break;
    case "message.deleted":
      emitter.emit("messageDeleted", { id: event.messageId, deletedBy: event.deletedBy });
      break;
    case "reaction.added":
      emitter.emit("reactionAdded", event);
      break;
    case "reaction.removed":
      emitter.emit("reactionRemoved", event);
      break;
    case "member.joined":
      emitter.emit("memberJoined", event.member);
      break;
    case "member.left":
      emitter.emit("memberLeft", event.member);
      break;
    case "member.updated":
      emitter.emit("memberUpdated", event.member);
      break;
    case "conversation.updated":
      emitter.emit("conversationUpdated", event.conversation);
      break;
  }
}
