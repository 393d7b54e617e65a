import { bearerOf } from "../http/bearer.ts";
import { createFrameQueue, SocketReader } from "./socket-reader.ts";

/** Prevents a server of a cluster from serving outdated data after another server has become leader without its knowledge. */
export type Fence = {
  isStale(): boolean;
  /** Resolves to true once the data is current again, or to false if that is not expected. */
  fresh(): Promise<boolean>;
};

/** A WebSocket in the form that protocols use; tests pass their own. */
export type Socket = {
  send(text: string): void;
  close(code: number, reason: string): void;
  /** Bytes that were sent, but that the client has not received yet. */
  readonly bufferedBytes: number;
};

/** A socket of the network, which can also subscribe to topics and send pings. */
export type TopicSocket = Socket & {
  /** Sends all frames with one write to the network. */
  sendTogether(texts: readonly string[]): void;
  sendBytes(data: Uint8Array): void;
  ping(): void;
  subscribe(topic: string): void;
  unsubscribe(topic: string): void;
};

export type SocketEvents = {
  /** `text` is null for a binary frame, which only some protocols read. */
  received(text: string | null, bytes: number, binary?: Buffer): void;
  /** The client answered a ping. */
  pong?(): void;
  closed(code: number): void;
  /** The budget of frames; a socket that exceeds it by far is closed instead of getting an error for each frame. */
  readonly framesPerWindow?: number;
};

/**
 * These options apply to the whole server: the framework ignores the options of single routes, so lower limits are
 * checked later.
 */
export const SOCKET_OPTIONS = {
  maxPayloadLength: 1024 * 1024,
  /**
   * A silent socket is pinged before this time is over and closed if it does not respond, so that half-open connections
   * do not stay.
   */
  idleTimeout: 24,
  sendPings: true,
  backpressureLimit: 4 * 1024 * 1024,
  /** Past the limit Bun would drop frames silently; a client whose socket was closed reconnects and resumes. */
  closeOnBackpressureLimit: true,
  perMessageDeflate: false,
};

export type NetworkSocket = {
  send(data: string | Uint8Array): unknown;
  /** Frames that are sent during the callback are written together at its end. */
  cork?(send: () => void): unknown;
  close(code: number, reason: string): void;
  ping(): unknown;
  subscribe(topic: string): void;
  unsubscribe(topic: string): void;
  getBufferedAmount(): number;
};

/** The framework's WebSocket handler calls these on the data of a socket. */
export type SocketData = {
  open(ws: NetworkSocket): void;
  message(ws: NetworkSocket, message: string | Buffer): void;
  pong(): void;
  close(ws: NetworkSocket, code: number): void;
};

/**
 * The functions of the HTTP server that sockets need. There are several servers: each has the sockets that it upgraded.
 */
export type SocketServer = {
  upgrade(request: Request, options: { data: SocketData; headers: Record<string, string> }): boolean;
  publish(topic: string, frame: string): unknown;
};

export type Sockets = ReturnType<typeof createSockets>;

const SERVICE_RESTART = 1012;
/** Every protocol of this server uses this close code for clients that send too much. */
const TOO_MUCH = 4429;

/** How many frames of one socket are held while it is uncertain whether this server is the leader. */
const MAX_HELD_FRAMES = 256;

/**
 * The WebSockets of this process, on all of its servers. Frames are held while the fence is stale: another server may
 * be the leader, and the state here may be outdated.
 */
export function createSockets(fence: Fence | null = null) {
  const socketCounts = new Map<SocketServer, number>();
  const queue = createFrameQueue();
  /** The servers of requests that did not arrive at the main listener. */
  const serverOf = new WeakMap<Request, SocketServer>();

  function count(server: SocketServer, change: 1 | -1): void {
    const sockets = (socketCounts.get(server) ?? 0) + change;
    if (sockets > 0) socketCounts.set(server, sockets);
    else socketCounts.delete(server);
  }

  return {
    /**
     * Upgrades a request to a socket, bypassing the framework's `ws` route: that route parses every frame as JSON
     * before its size can be checked. Returns false when the request is not an upgrade.
     */
    accept(
      listener: SocketServer | null,
      request: Request,
      headers: Record<string, string>,
      opened: (socket: TopicSocket) => SocketEvents,
      /** A trusted peer that sends for many clients, such as a media node, is never closed for sending too much. */
      { unlimited = false } = {},
    ): boolean {
      const server = serverOf.get(request) ?? listener;
      if (!server) return false;
      let events: SocketEvents | null = null;
      let held: (string | Buffer)[] | null = null;
      let network: NetworkSocket | null = null;
      const receive = (message: string | Buffer) => {
        if (typeof message === "string") events?.received(message, Buffer.byteLength(message));
        else events?.received(null, message.byteLength, message);
      };
      // Bun reuses its buffer after the callback.
      const copy = (message: string | Buffer) => (typeof message === "string" ? message : Buffer.from(message));
      const hold = async (ws: NetworkSocket, { fresh }: Fence, first: string | Buffer) => {
        const frames = [first];
        held = frames;
        const isFresh = await fresh();
        held = null;
        if (isFresh && frames.length <= MAX_HELD_FRAMES) frames.forEach(receive);
        else ws.close(SERVICE_RESTART, "another server may lead");
      };
      const reader = new SocketReader<string | Buffer>(queue, {
        receive(message) {
          if (held !== null) held.push(copy(message));
          else if (fence?.isStale() && network) void hold(network, fence, copy(message));
          else receive(message);
        },
        copy,
        framesPerWindow: () => events?.framesPerWindow,
        overflowed() {
          if (unlimited || !events) return;
          events.closed(TOO_MUCH);
          events = null;
          reader.clear();
          network?.close(TOO_MUCH, "too much at once");
        },
      });
      const data: SocketData = {
        open(ws) {
          count(server, 1);
          network = ws;
          events = opened({
            send: (text) => void ws.send(text),
            sendTogether(texts) {
              const send = () => {
                for (const text of texts) ws.send(text);
              };
              if (ws.cork && texts.length > 1) ws.cork(send);
              else send();
            },
            sendBytes: (data) => void ws.send(data),
            close(code, reason) {
              reader.clear();
              ws.close(code, reason);
            },
            ping: () => void ws.ping(),
            subscribe: (topic) => ws.subscribe(topic),
            unsubscribe: (topic) => ws.unsubscribe(topic),
            get bufferedBytes() {
              return ws.getBufferedAmount();
            },
          });
        },
        message: (_ws, message) => reader.push(message),
        pong: () => events?.pong?.(),
        close(_ws, code) {
          count(server, -1);
          reader.end(() => {
            events?.closed(code);
            events = null;
          });
        },
      };
      return server.upgrade(request, { data, headers });
    },

    /** Sets the server that received the request, if it is not the main listener. */
    carry(request: Request, server: SocketServer): void {
      serverOf.set(request, server);
    },

    publish(topic: string, frame: string): void {
      for (const server of socketCounts.keys()) server.publish(topic, frame);
    },
  };
}

type SocketCredential = {
  token: string | null;
  /** Headers of the upgrade: a browser that offers subprotocols closes the connection unless one of them is chosen. */
  headers: Record<string, string>;
};

const TOKEN_PROTOCOL = "token.";

/** The token of a WebSocket: query `token`, subprotocol `token.<jwt>`, or `Authorization`. */
export function socketCredential(request: Request): SocketCredential {
  const offered = (request.headers.get("sec-websocket-protocol") ?? "")
    .split(",")
    .map((protocol) => protocol.trim())
    .filter((protocol) => protocol !== "");
  const carrier = offered.find((protocol) => protocol.startsWith(TOKEN_PROTOCOL));
  // Choosing another subprotocol, if offered, avoids sending the token back.
  const chosen = offered.find((protocol) => protocol !== carrier) ?? carrier;
  return {
    token: new URL(request.url).searchParams.get("token") ?? carrier?.slice(TOKEN_PROTOCOL.length) ?? bearerOf(request),
    headers: chosen === undefined ? {} : { "sec-websocket-protocol": chosen },
  };
}
