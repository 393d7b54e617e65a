import { iso } from "../../kernel/clock.ts";
import type { ChatTokenCaller } from "../../kernel/http/callers.ts";
import type { RequestInfo } from "../../kernel/http/request-info.ts";
import type { SocketEvents, TopicSocket } from "../../kernel/socket/sockets.ts";
import { every } from "../../kernel/timers.ts";
import { CHAT_CLOSE_CODES } from "../../protocol/close-codes.ts";
import type { Runtime } from "../../runtime.ts";
import type { ChatParts } from "../chat.service.ts";
import { shownScopes } from "../token.service.ts";
import { Session, type SessionDeps } from "./chat-socket.ts";
import { createCommands } from "./commands.ts";
import { createConnections } from "./connection-log.ts";
import { createDecode } from "./decode.ts";
import { createHub } from "./hub.ts";

/** Who comes in, or why not: a browser learns a reason only from the code of a socket that was open. */
export type Admission = { caller: ChatTokenCaller } | { refused: number; reason: string };

const SWEEP_EVERY_MS = 250;
const HEARTBEAT_SECONDS = 15;
/** At a restart sockets are closed over this long, so that they do not all come back in the same moment. */
const DRAIN_SPREAD_MS = 2000;
const DRAIN_MS_PER_SOCKET = 2;

const REFUSED: SocketEvents = { received: () => {}, closed: () => {} };

export type Live = ReturnType<typeof createLive>;

/** The live side of chat: its sockets, from the first frame to the drain. */
export function createLive(runtime: Runtime, chat: ChatParts, isArchived: (projectId: string) => boolean) {
  const { bus, config, ids, log, metrics, now, timers, writer } = runtime;
  const hub = createHub(runtime);
  const connections = createConnections(runtime);
  const heartbeatSeconds = Math.min(HEARTBEAT_SECONDS, config.CHAT_PRESENCE_TTL_SECONDS / 3);
  let draining = false;

  const deps: SessionDeps = {
    hub,
    commands: createCommands(runtime, chat, hub),
    decode: createDecode(),
    now,
    maxFrameBytes: config.CHAT_MAX_FRAME_BYTES,
    heartbeatMs: heartbeatSeconds * 1000,
    onClosed(session, code) {
      hub.sessions.delete(session);
      connections.closed(session, code);
    },
    onError: (err) => log.error({ err }, "chat frame failed"),
  };

  metrics.gaugeOf("stoa_chat_connections", "Open chat sockets", () => hub.sessions.size);
  bus.on("projectChanged", ({ projectId }) => {
    if (!isArchived(projectId)) return;
    for (const session of hub.sessions) {
      if (session.caller.projectId === projectId) session.end(CHAT_CLOSE_CODES.unauthorized, "project archived");
    }
  });

  function sweep(): void {
    hub.sweep();
    connections.flush().catch((err) => log.error({ err }, "chat connections not recorded"));
  }

  return {
    hub,
    connections,
    sweep,
    presences: hub.presences,
    typists: hub.typists,

    /** A socket that is open: greeted, or told why it cannot stay. */
    opened(socket: TopicSocket, admission: Admission, info: RequestInfo): SocketEvents {
      if ("refused" in admission) {
        socket.close(admission.refused, admission.reason);
        return REFUSED;
      }
      if (draining) {
        socket.close(CHAT_CLOSE_CODES.restart, "restarting");
        return REFUSED;
      }
      const { caller } = admission;
      const session = new Session(ids.uuid(), socket, caller, deps);
      hub.sessions.add(session);
      connections.opened(session, info);
      session.push({
        type: "connected",
        connectionId: session.id,
        userId: caller.userId,
        scopes: shownScopes(caller.scopes),
        expiresAt: iso(caller.expiresAt),
        heartbeatSeconds,
        serverTime: iso(now()),
        limits: {
          maxFrameBytes: config.CHAT_MAX_FRAME_BYTES,
          maxTextLength: config.CHAT_MAX_TEXT_LENGTH,
          maxMetadataBytes: config.CHAT_MAX_METADATA_BYTES,
          maxSubscriptions: config.CHAT_MAX_ROOM_SUBSCRIPTIONS,
        },
      });
      return session;
    },

    /** Starts the clockwork; the answer stops it. */
    async start(): Promise<() => void> {
      await connections.start();
      return every(runtime, SWEEP_EVERY_MS, sweep);
    },

    /** Takes no new sockets and closes those there are, once what they sent is on disk. */
    async drain(deadline: number): Promise<void> {
      draining = true;
      await writer.drain();
      const sessions = [...hub.sessions];
      const spreadMs = Math.min(DRAIN_SPREAD_MS, sessions.length * DRAIN_MS_PER_SOCKET, Math.max(0, deadline - now()));
      await Promise.all(
        sessions.map(
          (session) =>
            new Promise<void>((done) => {
              timers.after(Math.random() * spreadMs, () => {
                session.end(CHAT_CLOSE_CODES.restart, "restarting");
                done();
              });
            }),
        ),
      );
      await connections.flush();
    },
  };
}
