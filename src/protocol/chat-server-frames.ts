/** Schemas of the server's chat frames besides durable events; `chat.ts` derives its types from them. */
import { type TObject, type TProperties, Type } from "@sinclair/typebox";
import { ChatEvent } from "./chat-events.ts";
import { Conversation, Message, Presence, ReadState, Ring, Typing } from "./chat-records.ts";

const Text = Type.String();
const RequestId = Type.String({ minLength: 1, maxLength: 64 });

export const ChatConnected = Type.Object({
  type: Type.Literal("connected"),
  connectionId: Text,
  userId: Text,
  scopes: Type.Array(Text),
  expiresAt: Text,
  heartbeatSeconds: Type.Number(),
  serverTime: Text,
  limits: Type.Object({
    maxFrameBytes: Type.Integer(),
    maxTextLength: Type.Integer(),
    maxMetadataBytes: Type.Integer(),
    maxSubscriptions: Type.Integer(),
    framesPerWindow: Type.Integer(),
    windowSeconds: Type.Integer(),
  }),
});

export const RoomJoinAck = Type.Object({
  room: Conversation,
  role: Text,
  /** The `seq` of the last event included in the acknowledgement; the next push has `seq + 1`. */
  seq: Type.Integer(),
  epoch: Text,
  /** False when too much was missed or the log was replaced; the client reads the history again. */
  recovered: Type.Boolean(),
  events: Type.Array(ChatEvent),
  presence: Type.Array(Presence),
  presenceCount: Type.Integer(),
  typing: Type.Array(Typing),
  readState: ReadState,
});

const OfMessage = Type.Object({ message: Message });
const OfRing = Type.Object({ ring: Ring });

/** The content of the `ack` of a request, if it has any. */
export const ChatAcks = {
  "room.join": RoomJoinAck,
  "message.send": Type.Object({ message: Message, deduplicated: Type.Boolean() }),
  "message.update": OfMessage,
  "message.delete": OfMessage,
  "read.mark": Type.Object({ readState: ReadState }),
  "call.ring": OfRing,
  "call.answer": OfRing,
  "call.decline": OfRing,
  "call.cancel": OfRing,
  "token.refresh": Type.Object({ expiresAt: Text, scopes: Type.Array(Text) }),
} as const satisfies Record<string, TObject>;

export const ChatErrorFrame = Type.Object({
  type: Type.Literal("error"),
  id: Type.Optional(RequestId),
  code: Text,
  message: Text,
  retryAfterSeconds: Type.Optional(Type.Number()),
});

export const ChatPong = Type.Object({ type: Type.Literal("pong"), id: Type.Optional(RequestId) });

function signal<T extends string, P extends TProperties>(type: T, properties: P) {
  return Type.Object({ type: Type.Literal(type), conversationId: Text, ...properties });
}

/** Current state, which is never replayed. */
export const ChatSignals = {
  presence: signal("presence", { userId: Text, status: Text, at: Text }),
  "typing.started": signal("typing.started", { userId: Text, startedAt: Text, expiresAt: Text }),
  "typing.stopped": signal("typing.stopped", { userId: Text }),
  read: signal("read", { userId: Text, messageId: Text, seq: Type.Integer(), at: Text }),
  "stream.updated": signal("stream.updated", {
    streamId: Text,
    status: Text,
    viewerCount: Type.Union([Type.Integer(), Type.Null()]),
  }),
} as const satisfies Record<string, TObject>;

export const TokenExpiring = Type.Object({ type: Type.Literal("token.expiring"), expiresAt: Text });

/** Frames for one user, on all of their sockets, regardless of the conversations joined. */
export const ChatPersonal = {
  /** A ring starts, or is active when a socket opens. */
  "call.ringing": signal("call.ringing", { ring: Ring }),
  /** A member answered, declined or missed the ring, or it is over. */
  "call.ring_updated": signal("call.ring_updated", { ring: Ring }),
} as const satisfies Record<string, TObject>;
