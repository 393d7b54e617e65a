import { iso } from "../../kernel/clock.ts";
import {
  type ChatAckBody,
  type ChatClientFrame,
  type ChatClientFrameOf,
  type ChatClientFrameType,
  MAX_PRESENCE_IN_ACK,
} from "../../protocol/chat.ts";
import { ApiError } from "../../protocol/errors.ts";
import type { Runtime } from "../../runtime.ts";
import { type Access, requireActive, requireUnmuted } from "../access.ts";
import type { ChatParts } from "../chat.service.ts";
import { shownScopes } from "../token.service.ts";
import { type Session, SocketError } from "./chat-socket.ts";
import type { Hub } from "./hub.ts";
import { recover } from "./recover.ts";

type Answer<T extends ChatClientFrameType> = ChatAckBody<T> | Promise<ChatAckBody<T>>;
type Table = { [T in ChatClientFrameType]: (session: Session, frame: ChatClientFrameOf<T>) => Answer<T> };

export type Commands = { run(session: Session, frame: ChatClientFrame): object | Promise<object> };

/** What each frame of a client does. What changes something is answered once it is on disk. */
export function createCommands({ config, now, write, writer }: Runtime, chat: ChatParts, hub: Hub): Commands {
  const { access, budgets, messages, reactions, readStates } = chat;

  /** On this connection, what is written to must have been joined. */
  function joined(session: Session, found: Access): Access {
    if (!session.joined.has(found.conversation.id)) {
      throw new SocketError("NOT_IN_ROOM", "Join the conversation on this connection first.");
    }
    return found;
  }

  const ofMessage = (session: Session, messageId: string, scope: "chat:read" | "chat:send") => {
    const found = access.message(session.caller, messageId, scope);
    joined(session, found.access);
    return found;
  };

  const typingIn = (session: Session, room: string): Access =>
    joined(session, access.conversation(session.caller, room, "chat:send"));

  const table: Table = {
    "room.join"(session, { room, since, epoch }) {
      budgets.join(session.caller);
      const { conversation, member } = access.conversation(session.caller, room, "chat:read");
      const { id } = conversation;
      if (!session.joined.has(id) && session.joined.size >= config.CHAT_MAX_ROOM_SUBSCRIPTIONS) {
        throw new SocketError(
          "TOO_MANY_SUBSCRIPTIONS",
          `A connection joins at most ${config.CHAT_MAX_ROOM_SUBSCRIPTIONS} conversations.`,
        );
      }
      session.join({ id, publicId: conversation.publicId });
      return {
        room: chat.conversations.show(conversation),
        role: member?.role ?? "MEMBER",
        seq: conversation.lastSeq,
        epoch: chat.epoch,
        ...recover(chat.log, conversation, since, epoch === undefined || epoch === chat.epoch),
        presence: hub.presences.list(id, MAX_PRESENCE_IN_ACK),
        presenceCount: hub.presences.count(id),
        typing: hub.typists.list(id),
        readState: readStates.of(conversation, session.userId),
      };
    },

    "room.leave"(session, { room }) {
      const { conversation } = joined(session, access.conversation(session.caller, room, "chat:read"));
      session.leave({ id: conversation.id, publicId: conversation.publicId });
      return {};
    },

    "message.send"(session, { room, messageType, ...input }) {
      budgets.send(session.caller);
      session.messagesSent += 1;
      return writer.checkThenWrite((unit) =>
        messages.send(unit, joined(session, access.conversation(session.caller, room, "chat:send")), {
          ...input,
          type: messageType,
        }),
      );
    },

    "message.update"(session, { messageId, text, metadata }) {
      budgets.edit(session.caller);
      return write((unit) => ({
        message: messages.edit(unit, ofMessage(session, messageId, "chat:send"), { text, metadata }),
      }));
    },

    "message.delete"(session, { messageId }) {
      budgets.edit(session.caller);
      return write((unit) => ({ message: messages.delete(unit, ofMessage(session, messageId, "chat:send")) }));
    },

    "reaction.add"(session, { messageId, emoji }) {
      budgets.react(session.caller);
      return write((unit) => {
        reactions.add(unit, ofMessage(session, messageId, "chat:send"), session.userId, emoji);
        return {};
      });
    },

    "reaction.remove"(session, { messageId, emoji }) {
      budgets.react(session.caller);
      return write((unit) => {
        reactions.remove(unit, ofMessage(session, messageId, "chat:send"), session.userId, emoji);
        return {};
      });
    },

    "read.mark"(session, { messageId }) {
      budgets.read(session.caller);
      return write((unit) => ({
        readState: readStates.mark(unit, ofMessage(session, messageId, "chat:read"), session.userId),
      }));
    },

    "typing.start"(session, { room }) {
      budgets.type(session.caller);
      const found = typingIn(session, room);
      requireActive(found);
      requireUnmuted(found, now());
      hub.typists.start(found.conversation, session.userId);
      return {};
    },

    "typing.stop"(session, { room }) {
      budgets.type(session.caller);
      hub.typists.stop(typingIn(session, room).conversation, session.userId);
      return {};
    },

    "presence.set"(session, { status }) {
      budgets.type(session.caller);
      for (const place of session.joined.values()) hub.presences.set(place, session.userId, status);
      return {};
    },

    async "token.refresh"(session, { token }) {
      const { projectId, environment, userId } = session.caller;
      const caller = await chat.tokens.verify(token);
      if (caller.projectId !== projectId || caller.environment !== environment || caller.userId !== userId) {
        throw new ApiError("SVC_PERMISSION_DENIED", "A connection keeps its user and project.");
      }
      session.refresh(caller);
      for (const place of [...session.joined.values()]) {
        if (caller.conversations !== null && !caller.conversations.includes(place.id)) session.leave(place);
      }
      return { expiresAt: iso(caller.expiresAt), scopes: shownScopes(caller.scopes) };
    },

    ping: () => ({}),
  };

  return {
    run: (session, frame) =>
      (table[frame.type] as (session: Session, frame: ChatClientFrame) => object)(session, frame),
  };
}
