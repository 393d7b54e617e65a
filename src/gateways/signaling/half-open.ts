import type { Runtime } from "../../kernel/runtime.ts";
import type { Socket, SocketEvents, TopicSocket } from "../../kernel/socket/sockets.ts";
import { every } from "../../kernel/time/timers.ts";

const PING_EVERY_MS = 8_000;
/** The time in which two pings stay unanswered. */
const SILENT_AFTER_MS = 24_000;

/**
 * Closes sockets whose client lost its network. Bun only detects this on sockets on which nothing is sent, but during a
 * call frames are always sent: without this check, the participant would stay in the room.
 */
export function createHalfOpenWatch(runtime: Runtime) {
  const { now } = runtime;
  const watched = new Map<TopicSocket, { heardAt: number; events: SocketEvents }>();

  every(runtime, PING_EVERY_MS, () => {
    for (const [socket, { heardAt, events }] of [...watched]) {
      if (now() - heardAt >= SILENT_AFTER_MS) {
        watched.delete(socket);
        // The client cannot answer the closing handshake, so the socket counts as closed at once.
        events.closed(1006);
        socket.close(1001, "silent");
      } else socket.ping();
    }
  });

  return (socket: Socket | TopicSocket, events: SocketEvents): SocketEvents => {
    if (!("ping" in socket)) return events;
    const entry = { heardAt: now(), events };
    watched.set(socket, entry);
    const heard = () => {
      entry.heardAt = now();
    };
    return {
      received(text, bytes, binary) {
        heard();
        events.received(text, bytes, binary);
      },
      pong: heard,
      closed(code) {
        if (watched.delete(socket)) events.closed(code);
      },
    };
  };
}
