import type { ChatTokenCaller } from "../../../kernel/http/callers.ts";
import type { RequestInfo } from "../../../kernel/http/request-info.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { errorFrame, type FrameError } from "../../../kernel/socket/frame-error.ts";
import { createFrameDecoder, createFrameReader } from "../../../kernel/socket/frame-reader.ts";
import type { SocketEvents, TopicSocket } from "../../../kernel/socket/sockets.ts";
import { iso } from "../../../kernel/time/clock.ts";
import { every } from "../../../kernel/time/timers.ts";
import { ChatClientFrames } from "../../../protocol/chat.ts";
import { CHAT_CLOSE_CODES } from "../../../protocol/close-codes.ts";
import type { ChatWithoutSockets } from "../chat-services.ts";
import { publicScopes } from "../tokens/token.service.ts";
import { ChatSocket, type ChatSocketDeps } from "./chat-socket.ts";
import { createCommands } from "./commands.ts";
import { createConnectionLog } from "./connection-log.ts";
import { createHub } from "./hub.ts";

/** A browser learns why it was rejected only from a socket that was open: from the close code or an `error` frame. */
export type Authentication = { caller: ChatTokenCaller } | { refused: number; reason: string; error?: FrameError };

const SWEEP_EVERY_MS = 250;
const HEARTBEAT_SECONDS = 15;
/** During a shutdown or an upgrade, sockets are closed over this time, so that clients do not all reconnect at the same moment. */
const DRAIN_SPREAD_MS = 2000;
const DRAIN_MS_PER_SOCKET = 2;

const REFUSED: SocketEvents = { received: () => {}, closed: () => {} };

export type ChatSockets = ReturnType<typeof createChatSockets>;

/** All sockets of chat, from the first frame to the drain. */
export function createChatSockets(
  runtime: Runtime,
  chat: ChatWithoutSockets,
  isArchived: (projectId: string) => boolean,
) {
  const { bus, config, ids, log, metrics, now, timers, writer } = runtime;
  const hub = createHub(runtime, chat.access);
  const connections = createConnectionLog(runtime);
  const heartbeatSeconds = Math.min(HEARTBEAT_SECONDS, config.CHAT_PRESENCE_TTL_SECONDS / 3);
  let draining = false;

  const decode = createFrameDecoder(ChatClientFrames);
  const frameLimits = {
    now,
    maxBytes: config.CHAT_MAX_FRAME_BYTES,
    framesPerWindow: config.CHAT_FRAME_RATE_LIMIT,
    windowSeconds: config.RATE_LIMIT_WINDOW_SECONDS,
  };
  const deps: ChatSocketDeps = {
    now,
    heartbeatMs: heartbeatSeconds * 1000,
    framesPerWindow: frameLimits.framesPerWindow,
    run: createCommands(runtime, chat, hub),
    onActivity: hub.touch,
    onClosed(socket, code, clean) {
      hub.closed(socket, clean);
      connections.closed(socket, code);
    },
    onError: (err) => log.error({ err }, "chat: frame handler failed"),
  };

  metrics.gaugeOf("stoa_chat_connections", "Open chat sockets", () => hub.sockets.size);
  bus.on("projectChanged", ({ projectId }) => {
    if (!isArchived(projectId)) return;
    for (const socket of hub.sockets) {
      if (socket.caller.projectId === projectId) socket.end(CHAT_CLOSE_CODES.unauthorized, "project archived");
    }
  });

  const spreadOf = ({ length }: readonly ChatSocket[]) => Math.min(DRAIN_SPREAD_MS, length * DRAIN_MS_PER_SOCKET);

  function sweep(): void {
    hub.sweep();
    connections.flush().catch((err) => log.error({ err }, "chat: connections not saved"));
  }

  return {
    hub,
    connections,
    sweep,

    /** Sends the first frame on an open socket, or closes the socket with the reason. */
    opened(network: TopicSocket, authentication: Authentication, info: RequestInfo): SocketEvents {
      if ("refused" in authentication) {
        if (authentication.error) network.send(JSON.stringify(errorFrame(authentication.error)));
        network.close(authentication.refused, authentication.reason);
        return REFUSED;
      }
      if (draining) {
        network.close(CHAT_CLOSE_CODES.restart, "restarting");
        return REFUSED;
      }
      const { caller } = authentication;
      if (chat.tokens.isRevoked(caller.tokenId)) {
        network.close(CHAT_CLOSE_CODES.unauthorized, "token revoked");
        return REFUSED;
      }
      const read = createFrameReader(decode, frameLimits);
      const socket = new ChatSocket(ids.uuid(), network, caller, read, deps);
      hub.opened(socket);
      connections.opened(socket, info);
      socket.push({
        type: "connected",
        connectionId: socket.id,
        userId: caller.userId,
        scopes: publicScopes(caller.scopes),
        expiresAt: iso(caller.expiresAt),
        heartbeatSeconds,
        serverTime: iso(now()),
        limits: {
          maxFrameBytes: config.CHAT_MAX_FRAME_BYTES,
          maxTextLength: config.CHAT_MAX_TEXT_LENGTH,
          maxMetadataBytes: config.CHAT_MAX_METADATA_BYTES,
          maxSubscriptions: config.CHAT_MAX_ROOM_SUBSCRIPTIONS,
          framesPerWindow: config.CHAT_FRAME_RATE_LIMIT,
          windowSeconds: config.RATE_LIMIT_WINDOW_SECONDS,
        },
      });
      for (const ring of chat.rings.ringingFor(caller)) {
        socket.push({ type: "call.ringing", conversationId: ring.conversationId, ring });
      }
      return socket;
    },

    /** Starts the recurring work and returns its stop. */
    async start(): Promise<() => void> {
      await connections.start();
      const stopRings = chat.rings.start();
      const stopSweeping = every(runtime, SWEEP_EVERY_MS, sweep);
      return () => {
        stopSweeping();
        stopRings();
      };
    },

    /** Rejects new sockets and closes the open ones when all changes that they requested are on disk. */
    async drain(deadline: number): Promise<void> {
      draining = true;
      await writer.drain();
      const sockets = [...hub.sockets];
      const spreadMs = Math.min(spreadOf(sockets), Math.max(0, deadline - now()));
      const endLater = (socket: ChatSocket) =>
        new Promise<void>((resolve) => {
          timers.after(Math.random() * spreadMs, () => {
            socket.end(CHAT_CLOSE_CODES.restart, "restarting");
            resolve();
          });
        });
      await Promise.all(sockets.map(endLater));
      await connections.flush();
    },

    /** Leaves the sockets to a newer process, which does not have to wait until the last client has been told to reconnect. */
    async handOver(): Promise<void> {
      draining = true;
      await writer.drain();
      const sockets = [...hub.sockets];
      const spreadMs = spreadOf(sockets);
      for (const socket of sockets) {
        socket.retire(CHAT_CLOSE_CODES.restart);
        timers.after(Math.random() * spreadMs, () => socket.network.close(CHAT_CLOSE_CODES.restart, "restarting"));
      }
      await connections.flush();
    },
  };
}
