import { iso } from "../../../kernel/clock.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { FrameError } from "../../../kernel/socket/frame-error.ts";
import {
  type ChatAckBody,
  type ChatClientFrame,
  type ChatClientFrameOf,
  type ChatClientFrameType,
  MAX_PRESENCE_IN_ACK,
} from "../../../protocol/chat.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { type Access, requireActive, requireUnmuted } from "../access.ts";
import type { EditMessage } from "../message.service.ts";
import type { ChatRules } from "../rules.ts";
import { shownScopes } from "../token.service.ts";
import type { ChatSocket } from "./chat-socket.ts";
import type { Hub } from "./hub.ts";
import { recover } from "./recover.ts";

type Answer<T extends ChatClientFrameType> = ChatAckBody<T> | Promise<ChatAckBody<T>>;
type Table = { [T in ChatClientFrameType]: (socket: ChatSocket, frame: ChatClientFrameOf<T>) => Answer<T> };

export type Commands = { run(socket: ChatSocket, frame: ChatClientFrame): object | Promise<object> };

/** What each frame of a client does. What changes something is answered once it is on disk. */
export function createCommands({ config, now, write, writer }: Runtime, chat: ChatRules, hub: Hub): Commands {
  const { access, budgets, messages, reactions, readStates, rings, preSend } = chat;

  /** On this connection, what is written to must have been joined. */
  function joined(socket: ChatSocket, found: Access): Access {
    if (!socket.joined.has(found.conversation.id)) {
      throw new FrameError("NOT_IN_ROOM", "Join the conversation on this connection first.");
    }
    return found;
  }

  const ofMessage = (socket: ChatSocket, messageId: string, scope: "chat:read" | "chat:send") => {
    const found = access.message(socket.caller, messageId, scope);
    joined(socket, found.access);
    return found;
  };

  const typingIn = (socket: ChatSocket, room: string): Access =>
    joined(socket, access.conversation(socket.caller, room, "chat:send"));

  function ringOf(socket: ChatSocket, ringId: string) {
    const row = rings.find(ringId);
    if (!row) throw new ApiError("SVC_RING_NOT_FOUND");
    access.within(socket.caller, row.conversationId, "chat:read", "SVC_RING_NOT_FOUND");
    return row;
  }

  /** Those who are rung have joined nothing yet. */
  function ofRing(socket: ChatSocket, ringId: string, status: "ANSWERED" | "DECLINED") {
    budgets.ring(socket.caller);
    return write((unit) => ({
      ring: rings.answer(unit, ringOf(socket, ringId), socket.userId, status),
    }));
  }

  const table: Table = {
    "room.join"(socket, { room, since, epoch }) {
      budgets.join(socket.caller);
      const { conversation, member } = access.conversation(socket.caller, room, "chat:read");
      const { id } = conversation;
      if (!socket.joined.has(id) && socket.joined.size >= config.CHAT_MAX_ROOM_SUBSCRIPTIONS) {
        throw new FrameError(
          "TOO_MANY_SUBSCRIPTIONS",
          `A connection joins at most ${config.CHAT_MAX_ROOM_SUBSCRIPTIONS} conversations.`,
        );
      }
      hub.join(socket, { id, publicId: conversation.publicId });
      return {
        room: chat.conversations.show(conversation),
        role: member?.role ?? "MEMBER",
        seq: conversation.lastSeq,
        epoch: chat.epoch,
        ...recover(chat.log, conversation, since, epoch === undefined || epoch === chat.epoch),
        presence: hub.presences.list(id, MAX_PRESENCE_IN_ACK),
        presenceCount: hub.presences.count(id),
        typing: hub.typists.list(id),
        readState: readStates.of(conversation, socket.userId),
      };
    },

    "room.leave"(socket, { room }) {
      const { conversation } = joined(socket, access.conversation(socket.caller, room, "chat:read"));
      hub.leave(socket, { id: conversation.id, publicId: conversation.publicId });
      return {};
    },

    "message.send"(socket, { room, messageType, ...input }) {
      budgets.send(socket.caller);
      socket.messagesSent += 1;
      const there = () => joined(socket, access.conversation(socket.caller, room, "chat:send"));
      const send = (checked: typeof input) =>
        writer.checkThenWrite((unit) => messages.send(unit, there(), { ...checked, type: messageType }));
      if (preSend === null) return send(input);
      const { type: _, id: __, ...message } = input;
      const question = {
        type: "message.sending",
        access: there(),
        message: { ...message, type: messageType },
      } as const;
      return preSend.through(question, input, send);
    },

    "message.update"(socket, { messageId, text, metadata }) {
      budgets.edit(socket.caller);
      const there = () => ofMessage(socket, messageId, "chat:send");
      const edit = (checked: EditMessage) => write((unit) => ({ message: messages.edit(unit, there(), checked) }));
      if (preSend === null) return edit({ text, metadata });
      const message = { id: messageId, text, metadata };
      const question = { type: "message.editing", access: there().access, message } as const;
      return preSend.through<EditMessage, Awaited<ReturnType<typeof edit>>>(question, { text, metadata }, edit);
    },

    "message.delete"(socket, { messageId }) {
      budgets.edit(socket.caller);
      return write((unit) => ({ message: messages.delete(unit, ofMessage(socket, messageId, "chat:send")) }));
    },

    "reaction.add"(socket, { messageId, emoji }) {
      budgets.react(socket.caller);
      return write((unit) => {
        reactions.add(unit, ofMessage(socket, messageId, "chat:send"), socket.userId, emoji);
        return {};
      });
    },

    "reaction.remove"(socket, { messageId, emoji }) {
      budgets.react(socket.caller);
      return write((unit) => {
        reactions.remove(unit, ofMessage(socket, messageId, "chat:send"), socket.userId, emoji);
        return {};
      });
    },

    "read.mark"(socket, { messageId }) {
      budgets.read(socket.caller);
      return write((unit) => ({
        readState: readStates.mark(unit, ofMessage(socket, messageId, "chat:read"), socket.userId),
      }));
    },

    "typing.start"(socket, { room }) {
      budgets.type(socket.caller);
      const found = typingIn(socket, room);
      requireActive(found);
      requireUnmuted(found, now());
      hub.typists.start(found.conversation, socket.userId);
      return {};
    },

    "typing.stop"(socket, { room }) {
      budgets.type(socket.caller);
      hub.typists.stop(typingIn(socket, room).conversation, socket.userId);
      return {};
    },

    "presence.set"(socket, { status }) {
      budgets.type(socket.caller);
      for (const ref of socket.joined.values()) hub.presences.set(ref, socket.userId, status);
      return {};
    },

    "call.ring"(socket, { room, type: _, id: __, ...input }) {
      budgets.ring(socket.caller);
      return write((unit) => {
        const { ring } = rings.ring(unit, access.conversation(socket.caller, room, "chat:send"), socket.userId, input);
        return { ring };
      });
    },

    "call.answer": (socket, { ringId }) => ofRing(socket, ringId, "ANSWERED"),
    "call.decline": (socket, { ringId }) => ofRing(socket, ringId, "DECLINED"),

    "call.cancel"(socket, { ringId }) {
      budgets.ring(socket.caller);
      return write((unit) => {
        const row = ringOf(socket, ringId);
        if (row.callerUserId !== socket.userId) throw new ApiError("SVC_PERMISSION_DENIED");
        return { ring: rings.cancel(unit, row) };
      });
    },

    async "token.refresh"(socket, { token }) {
      const { projectId, environment, userId } = socket.caller;
      const caller = await chat.tokens.verify(token);
      if (caller.projectId !== projectId || caller.environment !== environment || caller.userId !== userId) {
        throw new ApiError("SVC_PERMISSION_DENIED", "A connection keeps its user and project.");
      }
      socket.refresh(caller);
      for (const ref of [...socket.joined.values()]) {
        if (caller.conversations !== null && !caller.conversations.includes(ref.id)) hub.leave(socket, ref);
      }
      return { expiresAt: iso(caller.expiresAt), scopes: shownScopes(caller.scopes) };
    },

    ping: () => ({}),
  };

  return {
    run: (socket, frame) =>
      (table[frame.type] as (socket: ChatSocket, frame: ChatClientFrame) => object)(socket, frame),
  };
}
