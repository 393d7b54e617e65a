import type { Runtime } from "../../../kernel/runtime.ts";
import type { Socket, SocketEvents, TopicSocket } from "../../../kernel/socket/sockets.ts";
import { every } from "../../../kernel/time/timers.ts";

const ASK_EVERY_MS = 8_000;
/** Two questions without an answer. */
const SILENT_AFTER_MS = 24_000;

/**
 * Notices readers whose network is gone. The runtime does so only for sockets on which nothing is sent either, and in a call
 * something always is: without this, whoever lost the network would stay in the room for as long as others have news.
 */
export function watchHalfOpen(runtime: Runtime) {
  const { now } = runtime;
  const watched = new Map<TopicSocket, { heardAt: number; events: SocketEvents }>();

  every(runtime, ASK_EVERY_MS, () => {
    for (const [socket, { heardAt, events }] of [...watched]) {
      if (now() - heardAt >= SILENT_AFTER_MS) {
        watched.delete(socket);
        // The other side hears nothing of it, so nobody waits for its goodbye.
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
