import type { Live } from "../../src/chat/socket/live.ts";
import type { ChatTokenCaller } from "../../src/kernel/http/callers.ts";
import type { SocketEvents, TopicSocket } from "../../src/kernel/socket/sockets.ts";
import type { Frame } from "./client.ts";
import type { ChatRest } from "./rest.ts";

/** A socket without a network: what is sent to it is read at once, unless the test says that nobody reads. */
class FakeSocket implements TopicSocket {
  readonly frames: Frame[] = [];
  readonly topics = new Set<string>();
  closed: number | null = null;
  pings = 0;
  bufferedBytes = 0;
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

/** Connects fake sockets to the live side of an application in memory, with its clock in the test's hand. */
export function fakeNetwork(chat: ChatRest) {
  const { live, tokens } = chat.server.services.chat;
  const sockets = new Set<FakeSocket>();
  let nextId = 0;
  live.hub.broadcastBy((topic, frame) => {
    for (const socket of sockets) if (socket.topics.has(topic) && socket.closed === null) socket.send(frame);
  });

  return {
    live: live as Live,

    async connect(userId: string, input: Record<string, unknown> = {}): Promise<Fake> {
      const caller: ChatTokenCaller = await tokens.verify(await chat.token(userId, input));
      const socket = new FakeSocket();
      sockets.add(socket);
      const info = {
        id: "req",
        ip: "127.0.0.1",
        userAgent: null,
        origin: null,
        foreignOrigin: null,
        startedAt: 0,
        publicUrl: "http://localhost",
      };
      const events = live.opened(socket, { caller }, info);
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
