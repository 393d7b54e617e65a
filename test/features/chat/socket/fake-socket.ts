import type { ChatSockets } from "../../../../src/features/chat/socket/chat-sockets.ts";
import type { ChatTokenCaller } from "../../../../src/kernel/http/callers.ts";
import type { NetworkSocket, SocketEvents, SocketServer } from "../../../../src/kernel/socket/sockets.ts";
import type { Frame } from "../client.ts";
import type { ChatRest } from "../rest.ts";

/** A socket without a network: frames are read at once, unless the test stops the reading. */
class FakeSocket implements NetworkSocket {
  readonly frames: Frame[] = [];
  readonly topics = new Set<string>();
  closed: number | null = null;
  pings = 0;
  bufferedBytes = 0;
  getBufferedAmount = (): number => this.bufferedBytes;
  send = (text: string): void => void this.frames.push(JSON.parse(text) as Frame);
  close = (code: number): void => {
    this.closed = code;
  };
  ping = (): void => {
    this.pings += 1;
  };
  subscribe = (topic: string): void => void this.topics.add(topic);
  unsubscribe = (topic: string): void => void this.topics.delete(topic);
}

export type Fake = { socket: FakeSocket; say(type: string, fields?: object): Promise<Frame>; events: SocketEvents };

/** Connects fake sockets to an application in memory, whose clock the test sets. */
export function fakeNetwork(chat: ChatRest) {
  const { sockets: chatSockets, tokens } = chat.server.services.chat;
  const sockets = new Set<FakeSocket>();
  let nextId = 0;
  const network: SocketServer = {
    upgrade(_request, { data }) {
      const socket = new FakeSocket();
      sockets.add(socket);
      data.open(socket);
      return true;
    },
    publish(topic, frame) {
      for (const socket of sockets) if (socket.topics.has(topic) && socket.closed === null) socket.send(frame);
    },
  };

  return {
    chatSockets: chatSockets as ChatSockets,

    async connect(userId: string, input: Record<string, unknown> = {}): Promise<Fake> {
      const caller: ChatTokenCaller = await tokens.verify(await chat.token(userId, input));
      const info = {
        id: "req",
        ip: "127.0.0.1",
        userAgent: null,
        origin: null,
        foreignOrigin: null,
        ownHost: true,
        startedAt: 0,
        publicUrl: "http://localhost",
      };
      const events = await new Promise<SocketEvents>((opened) => {
        chat.server.runtime.sockets.accept(network, new Request(info.publicUrl), {}, (socket) => {
          const events = chatSockets.opened(socket, { caller }, info);
          opened(events);
          return events;
        });
      });
      const socket = [...sockets].at(-1);
      if (!socket) throw new Error("no socket was opened");
      return {
        socket,
        events,
        async say(type, fields = {}) {
          const id = `f${++nextId}`;
          const text = JSON.stringify({ type, id, ...fields });
          events.received(text, text.length);
          await chat.server.runtime.writer.drain();
          await Promise.resolve();
          const answer = socket.frames.find((frame) => frame.id === id);
          if (!answer) throw new Error(`no answer to ${type}`);
          return answer;
        },
      };
    },
  };
}
