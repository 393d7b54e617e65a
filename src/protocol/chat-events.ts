/**
 * Durable events of a conversation, in order of `seq`. The chat socket pushes them, `room.join` and `GET …/events`
 * replay them, all in the same format. Each contains the new state instead of the difference (`reactions`,
 * `replyCount`, the whole message), so that a client that replays them has the same state as one that was connected.
 */
import { type Static, type TProperties, Type } from "@sinclair/typebox";
import { Conversation, ConversationMember, Message, ReactionSummary } from "./chat-records.ts";

const NullableText = Type.Union([Type.String(), Type.Null()]);

function event<T extends string, P extends TProperties>(type: T, properties: P) {
  return Type.Object({
    type: Type.Literal(type),
    seq: Type.Integer(),
    conversationId: Type.String(),
    at: Type.String(),
    ...properties,
  });
}

/** Set for a new or deleted reply: the number of replies in its thread. */
const thread = Type.Optional(Type.Object({ rootId: Type.String(), replyCount: Type.Integer() }));
const ofReaction = {
  messageId: Type.String(),
  userId: Type.String(),
  emoji: Type.String(),
  reactions: Type.Array(ReactionSummary),
};
const ofMember = { userId: Type.String(), role: Type.String(), member: ConversationMember };

export const ChatEvents = {
  message: event("message", { message: Message, thread }),
  "message.updated": event("message.updated", { message: Message }),
  "message.deleted": event("message.deleted", {
    messageId: Type.String(),
    senderId: NullableText,
    deletedAt: Type.String(),
    deletedBy: NullableText,
    thread,
  }),
  "reaction.added": event("reaction.added", ofReaction),
  "reaction.removed": event("reaction.removed", ofReaction),
  "member.joined": event("member.joined", ofMember),
  "member.left": event("member.left", ofMember),
  "member.updated": event("member.updated", ofMember),
  "conversation.updated": event("conversation.updated", { conversation: Conversation }),
} as const;

export type ChatEventType = keyof typeof ChatEvents;
export type ChatEventOf<T extends ChatEventType> = Static<(typeof ChatEvents)[T]>;
export type ChatEvent = { [T in ChatEventType]: ChatEventOf<T> }[ChatEventType];

export const ChatEvent = Type.Unsafe<ChatEvent>(Type.Union(Object.values(ChatEvents)));

export const EventPage = Type.Object({
  data: Type.Array(ChatEvent),
  nextCursor: NullableText,
  hasMore: Type.Boolean(),
  epoch: Type.String(),
  lastSeq: Type.Integer(),
  /** False when the log does not contain the requested events; the client reads the history again. */
  recovered: Type.Boolean(),
});
export type EventPage = Static<typeof EventPage>;
