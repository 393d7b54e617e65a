import type { Runtime } from "../../../kernel/runtime.ts";
import { FrameError } from "../../../kernel/socket/frame-error.ts";
import { sameTenant } from "../../../kernel/tenant.ts";
import { iso } from "../../../kernel/time/clock.ts";
import {
  type ChatAckBody,
  type ChatClientFrame,
  type ChatClientFrameOf,
  type ChatClientFrameType,
  MAX_PRESENCE_IN_ACK,
} from "../../../protocol/chat.ts";
import { ApiError } from "../../../protocol/errors.ts";
import { type Access, requireActive, requireUnmuted } from "../access.ts";
import type { EditMessage } from "../chat.schema.ts";
import type { ChatWithoutSockets } from "../chat-services.ts";
import { publicScopes } from "../tokens/token.service.ts";
import type { ChatSocket } from "./chat-socket.ts";
import type { Hub } from "./hub.ts";

type Result<T extends ChatClientFrameType> = ChatAckBody<T> | Promise<ChatAckBody<T>>;
type Commands = { [T in ChatClientFrameType]: (socket: ChatSocket, frame: ChatClientFrameOf<T>) => Result<T> };

/** Executes the frames of clients. A command that changes something resolves once the change is on disk. */
export function createCommands({ config, now, write, writer }: Runtime, chat: ChatWithoutSockets, hub: Hub) {
  const { access, budgets, messages, reactions, readStates, rings, preSend } = chat;

  function requireJoined(socket: ChatSocket, found: Access): Access {
    if (!socket.joined.has(found.conversation.id)) {
      throw new FrameError("NOT_IN_ROOM", "Join the conversation on this connection first.");
    }
    return found;
  }

  const messageAccess = (socket: ChatSocket, messageId: string, scope: "chat:read" | "chat:send") => {
    const found = access.message(socket.caller, messageId, scope);
    requireJoined(socket, found.access);
    return found;
  };

  const sendAccess = (socket: ChatSocket, room: string): Access =>
    requireJoined(socket, access.conversation(socket.caller, room, "chat:send"));

  /** Answering a ring does not require a join, because the user may not have opened the conversation yet. */
  function answerRing(socket: ChatSocket, ringId: string, status: "ANSWERED" | "DECLINED") {
    budgets.ring(socket.caller);
    return write((unit) => {
      const { row } = rings.findFor(socket.caller, ringId);
      return { ring: rings.answer(unit, row, socket.userId, status) };
    });
  }

  const commands: Commands = {
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
        room: chat.conversations.present(conversation),
        role: member?.role ?? "MEMBER",
        seq: conversation.lastSeq,
        epoch: chat.epoch,
        ...chat.log.recover(conversation, since, epoch === undefined || epoch === chat.epoch),
        presence: hub.presence.list(id, MAX_PRESENCE_IN_ACK),
        presenceCount: hub.presence.count(id),
        typing: hub.typing.list(id),
        readState: readStates.of(conversation, socket.userId),
      };
    },

    "room.leave"(socket, { room }) {
      const { conversation } = requireJoined(socket, access.conversation(socket.caller, room, "chat:read"));
      hub.leave(socket, { id: conversation.id, publicId: conversation.publicId });
      return {};
    },

    "message.send"(socket, { room, messageType, type: _, id: __, ...input }) {
      budgets.send(socket.caller);
      socket.messagesSent += 1;
      const found = () => sendAccess(socket, room);
      return preSend.run(
        () => ({ type: "message.sending", access: found(), message: { ...input, type: messageType } }),
        input,
        (checked) => writer.checkThenWrite((unit) => messages.send(unit, found(), { ...checked, type: messageType })),
      );
    },

    "message.update"(socket, { messageId, text, metadata }) {
      budgets.edit(socket.caller);
      const found = () => messageAccess(socket, messageId, "chat:send");
      const input: EditMessage = { text, metadata };
      return preSend.run(
        () => ({ type: "message.editing", access: found().access, message: { id: messageId, ...input } }),
        input,
        (checked) => write((unit) => ({ message: messages.edit(unit, found(), checked) })),
      );
    },

    "message.delete"(socket, { messageId }) {
      budgets.edit(socket.caller);
      return write((unit) => ({ message: messages.delete(unit, messageAccess(socket, messageId, "chat:send")) }));
    },

    "reaction.add"(socket, { messageId, emoji }) {
      budgets.react(socket.caller);
      return write((unit) => {
        reactions.add(unit, messageAccess(socket, messageId, "chat:send"), socket.userId, emoji);
        return {};
      });
    },

    "reaction.remove"(socket, { messageId, emoji }) {
      budgets.react(socket.caller);
      return write((unit) => {
        reactions.remove(unit, messageAccess(socket, messageId, "chat:send"), socket.userId, emoji);
        return {};
      });
    },

    "read.mark"(socket, { messageId }) {
      budgets.read(socket.caller);
      return write((unit) => ({
        readState: readStates.mark(unit, messageAccess(socket, messageId, "chat:read"), socket.userId),
      }));
    },

    "typing.start"(socket, { room }) {
      budgets.type(socket.caller);
      const found = sendAccess(socket, room);
      requireActive(found);
      requireUnmuted(found, now());
      hub.typing.start(found.conversation, socket.userId);
      return {};
    },

    "typing.stop"(socket, { room }) {
      budgets.type(socket.caller);
      hub.typing.stop(sendAccess(socket, room).conversation, socket.userId);
      return {};
    },

    "presence.set"(socket, { status }) {
      budgets.type(socket.caller);
      for (const ref of socket.joined.values()) hub.presence.set(ref, socket.userId, status);
      return {};
    },

    "call.ring"(socket, { room, type: _, id: __, ...input }) {
      budgets.ring(socket.caller);
      return write((unit) => {
        const { ring } = rings.ring(unit, access.conversation(socket.caller, room, "chat:send"), socket.userId, input);
        return { ring };
      });
    },

    "call.answer": (socket, { ringId }) => answerRing(socket, ringId, "ANSWERED"),
    "call.decline": (socket, { ringId }) => answerRing(socket, ringId, "DECLINED"),

    "call.cancel"(socket, { ringId }) {
      budgets.ring(socket.caller);
      return write((unit) => {
        const { row } = rings.findFor(socket.caller, ringId);
        if (row.callerUserId !== socket.userId) throw new ApiError("SVC_PERMISSION_DENIED");
        return { ring: rings.cancel(unit, row) };
      });
    },

    async "token.refresh"(socket, { token }) {
      const caller = await chat.tokens.verify(token);
      if (caller.userId !== socket.userId || !sameTenant(caller, socket.caller)) {
        throw new ApiError("SVC_PERMISSION_DENIED", "A connection keeps its user and project.");
      }
      socket.refresh(caller);
      hub.leaveUnreadable(socket);
      return { expiresAt: iso(caller.expiresAt), scopes: publicScopes(caller.scopes) };
    },

    ping: () => ({}),
  };

  return (socket: ChatSocket, frame: ChatClientFrame): object | Promise<object> =>
    (commands[frame.type] as (socket: ChatSocket, frame: ChatClientFrame) => object)(socket, frame);
}
