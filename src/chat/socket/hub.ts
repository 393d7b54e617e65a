import { type ChatSignal, MAX_BUFFERED_BYTES } from "../../protocol/chat.ts";
import type { ChatEvent } from "../../protocol/chat-events.ts";
import { CHAT_CLOSE_CODES } from "../../protocol/close-codes.ts";
import type { Runtime } from "../../runtime.ts";
import type { Session } from "./chat-socket.ts";
import type { Place } from "./conversation-ref.ts";
import { createPresences } from "./presence.ts";
import { createTypists } from "./typing.ts";

/** Sends one frame to every socket that subscribed to the topic. */
type Broadcast = (topic: string, frame: string) => void;

type Room = { place: Place; sessions: Set<Session>; bytesUnchecked: number };

/** Slow readers are looked for each time this much was published to a conversation, and by the sweep. */
const CHECK_EVERY_BYTES = 128 * 1024;
/** In a larger crowd, who came, went or read is not announced one by one: it would cost its square in frames. */
const MAX_SIGNALLED_SOCKETS = 200;

export type Hub = ReturnType<typeof createHub>;

/** Which sockets have which conversation open, and how what happens reaches them. */
export function createHub({ bus, config, now }: Runtime) {
  const sessions = new Set<Session>();
  const rooms = new Map<string, Room>();
  let broadcast: Broadcast = () => {};

  function publish(room: Room, frame: string): void {
    broadcast(topicOf(room.place.id), frame);
    room.bytesUnchecked += frame.length;
    if (room.bytesUnchecked < CHECK_EVERY_BYTES) return;
    room.bytesUnchecked = 0;
    room.sessions.forEach(endIfSlow);
  }

  function endIfSlow(session: Session): void {
    if (session.socket.bufferedBytes > MAX_BUFFERED_BYTES) session.end(CHAT_CLOSE_CODES.slow, "slow reader");
  }

  function signal(conversationId: string, content: ChatSignal): void {
    const room = rooms.get(conversationId);
    if (!room) return;
    const frame = JSON.stringify(content);
    const personal = content.type === "presence" || content.type === "read";
    if (!personal || room.sessions.size <= MAX_SIGNALLED_SOCKETS) publish(room, frame);
    else for (const session of room.sessions) if (session.userId === content.userId) session.send(frame);
  }

  const presences = createPresences(now, config.CHAT_PRESENCE_TTL_SECONDS * 1000, (place, change) =>
    signal(place.id, { type: "presence", conversationId: place.publicId, ...change }),
  );
  const typists = createTypists(now, config.CHAT_TYPING_TTL_SECONDS * 1000, (place, change) => {
    const { publicId: conversationId } = place;
    if (change.type === "typing.stopped") signal(place.id, { ...change, conversationId });
    else signal(place.id, { type: change.type, conversationId, ...change.typing });
  });

  function leave(session: Session, place: Place, clean: boolean): void {
    const room = rooms.get(place.id);
    if (!room?.sessions.delete(session)) return;
    if (room.sessions.size === 0) rooms.delete(place.id);
    typists.stop(place, session.userId);
    presences.leave(place, session.userId, clean);
  }

  function deliver(conversationId: string, event: ChatEvent): void {
    const room = rooms.get(conversationId);
    if (!room) return;
    const frame = JSON.stringify(event);
    if (event.type === "message" && event.message.senderId !== null) typists.stop(room.place, event.message.senderId);
    if (event.type === "member.left") {
      // It is the last they hear. Sent to them alone: a topic forgets what is pending for whoever leaves it.
      for (const session of room.sessions) {
        if (session.userId !== event.userId) continue;
        session.send(frame);
        session.leave(room.place);
      }
    }
    publish(room, frame);
  }

  bus.on("chatEvent", ({ conversation, event }) => deliver(conversation.id, event));
  bus.on("chatSignal", ({ conversationId, signal: content }) => signal(conversationId, content));
  bus.on("chatTokenRevoked", ({ tokenId }) => {
    for (const session of sessions) {
      if (session.tokenId === tokenId) session.end(CHAT_CLOSE_CODES.unauthorized, "token revoked");
    }
  });

  return {
    sessions,
    presences,
    typists,
    leave,

    broadcastBy(by: Broadcast): void {
      broadcast = by;
    },

    /** From now on the session gets what is published; what happened before, its join has told it. */
    join(session: Session, place: Place): void {
      const room = rooms.get(place.id) ?? { place, sessions: new Set<Session>(), bytesUnchecked: 0 };
      rooms.set(place.id, room);
      if (room.sessions.has(session)) return;
      room.sessions.add(session);
      session.socket.subscribe(topicOf(place.id));
      presences.join(place, session.userId);
    },

    sweep(): void {
      const at = now();
      for (const session of sessions) {
        endIfSlow(session);
        session.sweep(at);
      }
      presences.sweep();
      typists.sweep();
    },
  };
}

export function topicOf(conversationId: string): string {
  return `chat ${conversationId}`;
}
