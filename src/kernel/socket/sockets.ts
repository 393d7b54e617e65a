import type { Fence } from "../db/fence.ts";
import { Turns } from "./turns.ts";

/** A WebSocket as the protocols see it; tests hand in one of their own. */
export type Socket = {
  send(text: string): void;
  close(code: number, reason: string): void;
  /** What the reader has not taken yet. */
  readonly bufferedBytes: number;
};

/** What the network's own socket can do besides: be one of many readers of a topic, and be pinged. */
export type TopicSocket = Socket & {
  /** One write of the network for all of them. */
  sendTogether(texts: readonly string[]): void;
  sendBytes(data: Uint8Array): void;
  ping(): void;
  subscribe(topic: string): void;
  unsubscribe(topic: string): void;
};

export type SocketEvents = {
  /** `text` is null for a binary frame, which only some protocols read. */
  received(text: string | null, bytes: number, binary?: Buffer): void;
  /** The other side answered a ping. */
  answered?(): void;
  closed(code: number): void;
  /** So many frames a window are none too many. Far more at once are not even kept to be refused. */
  readonly framesPerWindow?: number;
};

/** For the whole server: the framework ignores what single routes say. Smaller frame limits are checked by hand. */
export const SOCKET_OPTIONS = {
  maxPayloadLength: 1024 * 1024,
  /** A socket silent this long is pinged in time and, without an answer, closed: no half-open peer stays for longer. */
  idleTimeout: 24,
  sendPings: true,
  backpressureLimit: 4 * 1024 * 1024,
  /** Past the limit Bun would drop frames silently; a closed reader comes back and resumes. */
  closeOnBackpressureLimit: true,
  perMessageDeflate: false,
};

/** What is used of the runtime's own socket. */
export type NetworkSocket = {
  send(data: string | Uint8Array): unknown;
  /** What is sent meanwhile goes out at its end. */
  cork?(send: () => void): unknown;
  close(code: number, reason: string): void;
  ping(): unknown;
  subscribe(topic: string): void;
  unsubscribe(topic: string): void;
  getBufferedAmount(): number;
};

/** What the framework's own WebSocket handler calls on the data of a socket. */
export type SocketData = {
  open(ws: NetworkSocket): void;
  message(ws: NetworkSocket, message: string | Buffer): void;
  pong(): void;
  close(ws: NetworkSocket, code: number): void;
};

/** What of the HTTP server sockets need. After a renewed certificate there are several, each with sockets of its own. */
export type SocketServer = {
  upgrade(request: Request, options: { data: SocketData; headers: Record<string, string> }): boolean;
  publish(topic: string, frame: string): unknown;
};

export type Sockets = ReturnType<typeof createSockets>;

const SERVICE_RESTART = 1012;
/** As every protocol here says to whoever sends too much. */
const TOO_MUCH = 4429;

/** Of one socket, at a moment when nobody is answered. */
const MOST_HELD = 256;

/**
 * The WebSockets of this process, on whichever server they came in. What they say waits while the fence is in doubt: what
 * is known here may no longer be true.
 */
export function createSockets(fence: Fence | null = null) {
  const open = new Map<SocketServer, number>();
  const turns = new Turns();
  /** Requests that came in elsewhere, with where their sockets are. */
  const carried = new WeakMap<Request, SocketServer>();

  function count(server: SocketServer, change: 1 | -1): void {
    const sockets = (open.get(server) ?? 0) + change;
    if (sockets > 0) open.set(server, sockets);
    else open.delete(server);
  }

  return {
    /**
     * Turns a request into a socket, past the framework's `ws` route: that one parses every frame as JSON before
     * anybody could look at its size. False when the request asks for no socket.
     */
    accept(
      listener: SocketServer | null,
      request: Request,
      headers: Record<string, string>,
      opened: (socket: TopicSocket) => SocketEvents,
      /** For one that speaks for many, and is believed. */
      { neverTooMuch = false } = {},
    ): boolean {
      const server = carried.get(request) ?? listener;
      if (!server) return false;
      let events: SocketEvents | null = null;
      let held: (string | Buffer)[] | null = null;
      let network: NetworkSocket | null = null;
      const receive = (message: string | Buffer) => {
        if (typeof message === "string") events?.received(message, Buffer.byteLength(message));
        else events?.received(null, message.byteLength, message);
      };
      // Bun's buffer is its own again after this.
      const kept = (message: string | Buffer) => (typeof message === "string" ? message : Buffer.from(message));
      const hold = async (ws: NetworkSocket, { fresh }: Fence, first: string | Buffer) => {
        const waiting = [first];
        held = waiting;
        const isFresh = await fresh();
        held = null;
        if (isFresh && waiting.length <= MOST_HELD) waiting.forEach(receive);
        else ws.close(SERVICE_RESTART, "another server may lead");
      };
      const speaker = turns.speaker<string | Buffer>({
        hear(message) {
          if (held !== null) held.push(kept(message));
          else if (fence?.isStale() && network) void hold(network, fence, kept(message));
          else receive(message);
        },
        kept,
        framesPerWindow: () => events?.framesPerWindow,
        flooded() {
          if (neverTooMuch || !events) return;
          // What it said after that is heard by nobody.
          events.closed(TOO_MUCH);
          events = null;
          speaker.forget();
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
              speaker.forget();
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
        message: (_ws, message) => speaker.say(message),
        pong: () => events?.answered?.(),
        close(_ws, code) {
          count(server, -1);
          speaker.end(() => {
            events?.closed(code);
            events = null;
          });
        },
      };
      return server.upgrade(request, { data, headers });
    },

    /** The socket that this request asks for is one of that server. */
    carry(request: Request, server: SocketServer): void {
      carried.set(request, server);
    },

    /** Sends to every socket that subscribed to the topic. */
    publish(topic: string, frame: string): void {
      for (const server of open.keys()) server.publish(topic, frame);
    },
  };
}

type SocketCredential = {
  token: string | null;
  /** Headers of the upgrade: a browser that offers subprotocols hangs up unless one of them is chosen. */
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
  // Another one if there is, so that the token is not sent back.
  const chosen = offered.find((protocol) => protocol !== carrier) ?? carrier;
  const bearer = /^Bearer ([\x21-\x7e]+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
  return {
    token: new URL(request.url).searchParams.get("token") ?? carrier?.slice(TOKEN_PROTOCOL.length) ?? bearer ?? null,
    headers: chosen === undefined ? {} : { "sec-websocket-protocol": chosen },
  };
}
