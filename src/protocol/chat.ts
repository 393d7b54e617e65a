/** The chat socket `GET /v1/chat/ws`: all frames of the client and the server. Its close codes are in close-codes.ts. */
import { type Static, type TObject, type TProperties, Type } from "@sinclair/typebox";
import type { ChatEvent } from "./chat-events.ts";
import { MAX_RUNG_MEMBERS, Metadata, RING_SECONDS } from "./chat-records.ts";
import type * as frames from "./chat-server-frames.ts";

/** The maximum number of events that one `room.join` replays; with more the client reads the history again. */
export const MAX_REPLAYED_EVENTS = 300;
/** The maximum number of unread bytes of a socket before it is closed as too slow. */
export const MAX_BUFFERED_BYTES = 1024 * 1024;
export const TOKEN_EXPIRING_SECONDS = 60;
/**
 * The maximum number of users listed in the acknowledgement of a join; `presenceCount` is exact, and REST lists all.
 */
export const MAX_PRESENCE_IN_ACK = 100;

const RequestId = Type.String({ minLength: 1, maxLength: 64 });
const Room = Type.String({ minLength: 1, maxLength: 128 });
const MessageId = Type.String({ minLength: 1, maxLength: 64 });
const RingId = Type.String({ minLength: 1, maxLength: 64 });
const UserId = Type.String({ minLength: 1, maxLength: 128 });
const Emoji = Type.String({ minLength: 1, maxLength: 256 });

function request<T extends string, P extends TProperties>(type: T, properties: P) {
  return Type.Object({ type: Type.Literal(type), id: Type.Optional(RequestId), ...properties });
}

export const ChatClientFrames = {
  "room.join": request("room.join", {
    room: Room,
    since: Type.Optional(Type.Integer({ minimum: 0 })),
    epoch: Type.Optional(Type.String({ maxLength: 64 })),
  }),
  "room.leave": request("room.leave", { room: Room }),
  "message.send": request("message.send", {
    room: Room,
    text: Type.Optional(Type.String()),
    messageType: Type.Optional(Type.String()),
    replyTo: Type.Optional(Type.String({ maxLength: 64 })),
    clientMessageId: Type.Optional(Type.String({ maxLength: 128 })),
    attachmentId: Type.Optional(Type.String({ maxLength: 64 })),
    metadata: Type.Optional(Metadata),
    clientSentAt: Type.Optional(Type.Number({ minimum: 0 })),
  }),
  "message.update": request("message.update", {
    messageId: MessageId,
    text: Type.Optional(Type.String()),
    metadata: Type.Optional(Metadata),
  }),
  "message.delete": request("message.delete", { messageId: MessageId }),
  "reaction.add": request("reaction.add", { messageId: MessageId, emoji: Emoji }),
  "reaction.remove": request("reaction.remove", { messageId: MessageId, emoji: Emoji }),
  "read.mark": request("read.mark", { messageId: MessageId }),
  "typing.start": request("typing.start", { room: Room }),
  "typing.stop": request("typing.stop", { room: Room }),
  "presence.set": request("presence.set", { status: Type.Union([Type.Literal("online"), Type.Literal("away")]) }),
  "call.ring": request("call.ring", {
    room: Room,
    userIds: Type.Optional(Type.Array(UserId, { minItems: 1, maxItems: MAX_RUNG_MEMBERS })),
    timeoutSeconds: Type.Optional(Type.Integer({ minimum: RING_SECONDS.min, maximum: RING_SECONDS.max })),
    metadata: Type.Optional(Metadata),
  }),
  "call.answer": request("call.answer", { ringId: RingId }),
  "call.decline": request("call.decline", { ringId: RingId }),
  "call.cancel": request("call.cancel", { ringId: RingId }),
  "token.refresh": request("token.refresh", { token: Type.String({ minLength: 1, maxLength: 16_384 }) }),
  ping: request("ping", {}),
} as const satisfies Record<string, TObject>;

export type ChatClientFrameType = keyof typeof ChatClientFrames;
export type ChatClientFrameOf<T extends ChatClientFrameType> = Static<(typeof ChatClientFrames)[T]>;
export type ChatClientFrame = { [T in ChatClientFrameType]: ChatClientFrameOf<T> }[ChatClientFrameType];

// ---------------------------------------------------------------- server → client: answers

export type RoomJoinAck = Static<typeof frames.RoomJoinAck>;

export type ChatAckBody<T extends ChatClientFrameType> = T extends keyof typeof frames.ChatAcks
  ? Static<(typeof frames.ChatAcks)[T]>
  : Record<never, never>;
type ChatAck<T extends ChatClientFrameType = ChatClientFrameType> = { type: "ack"; id: string } & ChatAckBody<T>;

export type ChatErrorFrame = Static<typeof frames.ChatErrorFrame>;
type ChatPong = Static<typeof frames.ChatPong>;

// ---------------------------------------------------------------- server → client: pushes without `seq`

export type ChatConnected = Static<typeof frames.ChatConnected>;

/** Current state, which is never replayed. */
export type ChatSignal = {
  [T in keyof typeof frames.ChatSignals]: Static<(typeof frames.ChatSignals)[T]>;
}[keyof typeof frames.ChatSignals];

/** Frames for one user, regardless of the conversations that their sockets have joined. */
export type ChatPersonal = {
  [T in keyof typeof frames.ChatPersonal]: Static<(typeof frames.ChatPersonal)[T]>;
}[keyof typeof frames.ChatPersonal];

export type ChatServerFrame =
  | ChatConnected
  | ChatAck
  | ChatErrorFrame
  | ChatPong
  | ChatEvent
  | ChatSignal
  | ChatPersonal
  | Static<typeof frames.TokenExpiring>;
