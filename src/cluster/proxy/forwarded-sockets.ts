import type {
  NetworkSocket,
  SocketData,
  SocketEvents,
  SocketServer,
  TopicSocket,
} from "../../kernel/socket/sockets.ts";
import {
  BATCH_GREETING,
  decodeProxyFrame,
  encodeLeaderFrame,
  framesOf,
  type LeaderFrame,
  nextBatch,
  type ProxyFrame,
  type UpgradeRequest,
} from "./frames.ts";

/** The connection closes when too much is buffered in it, so frames beyond this limit are queued here. */
const MAX_IN_CONNECTION_BYTES = 1024 * 1024;
/** A proxy with this much queued cannot catch up. */
const MAX_WAITING_CHARACTERS = 256 * 1024 * 1024;
const RETRY_SEND_MS = 5;

type Deps = {
  /** Handles a request as if this server had received it directly. */
  handle: (request: Request) => Promise<Response>;
  /** Opens the WebSocket of an upgrade request as a socket of the given server. */
  carry: (request: Request, server: SocketServer) => void;
  /** A proxy of an older version accepts one frame per message. */
  takesBatches: boolean;
  onClosed: () => void;
};

/** One proxy as the leader sees it: a server whose WebSockets all arrive over one connection. */
export class ForwardedSockets implements SocketServer, SocketEvents {
  readonly #sockets = new Map<number, ForwardedSocket>();
  readonly #upgrading = new WeakMap<Request, number>();
  /** The number of subscribed sockets by topic. Messages for a topic without subscribers are not sent to the proxy. */
  readonly #topics = new Map<string, number>();
  readonly #waiting: string[] = [];
  #waitingSize = 0;
  #closed = false;

  constructor(
    private readonly network: TopicSocket,
    private readonly deps: Deps,
  ) {
    if (deps.takesBatches) network.send(BATCH_GREETING);
  }

  received(text: string | null): void {
    if (text === null) return;
    for (const encoded of framesOf(text)) this.#receive(decodeProxyFrame(encoded));
  }

  closed(): void {
    this.#closed = true;
    this.deps.onClosed();
    for (const socket of [...this.#sockets.values()]) socket.onClosed(1006);
  }

  upgrade(request: Request, { data, headers }: { data: SocketData; headers: Record<string, string> }): boolean {
    const id = this.#upgrading.get(request);
    if (id === undefined || this.#closed) return false;
    const socket = new ForwardedSocket(id, data, this);
    this.#sockets.set(id, socket);
    this.sendFrame({ type: "accept", id, headers });
    data.open(socket);
    return true;
  }

  publish(topic: string, text: string): void {
    if (this.#topics.has(topic)) this.sendFrame({ type: "publish", topic, text });
  }

  sendFrame(frame: LeaderFrame): void {
    if (this.#closed) return;
    const encoded = encodeLeaderFrame(frame);
    this.#waiting.push(encoded);
    this.#waitingSize += encoded.length;
    if (this.#waitingSize > MAX_WAITING_CHARACTERS) this.network.close(1013, "too far behind");
    else if (this.#waiting.length === 1) setImmediate(this.#sendWaiting);
  }

  countSubscriber(topic: string, change: 1 | -1): void {
    const subscribers = (this.#topics.get(topic) ?? 0) + change;
    if (subscribers > 0) this.#topics.set(topic, subscribers);
    else this.#topics.delete(topic);
  }

  remove(id: number): void {
    this.#sockets.delete(id);
  }

  readonly #sendWaiting = (): void => {
    if (this.#closed) return;
    let sent = 0;
    while (sent < this.#waiting.length && this.network.bufferedBytes < MAX_IN_CONNECTION_BYTES) {
      const { text, next } = this.deps.takesBatches
        ? nextBatch(this.#waiting, sent)
        : { text: this.#waiting[sent] ?? "", next: sent + 1 };
      this.network.send(text);
      sent = next;
    }
    for (const encoded of this.#waiting.splice(0, sent)) this.#waitingSize -= encoded.length;
    if (this.#waiting.length > 0) setTimeout(this.#sendWaiting, RETRY_SEND_MS);
  };

  #receive(frame: ProxyFrame): void {
    if (frame.type === "open") return void this.#open(frame.id, frame.upgradeRequest);
    const socket = this.#sockets.get(frame.id);
    if (socket === undefined) return;
    switch (frame.type) {
      case "text":
        socket.data.message(socket, frame.text);
        break;
      case "bytes":
        socket.data.message(socket, frame.data);
        break;
      case "oversized":
        // The socket reader checks the size before the content.
        socket.data.message(socket, Buffer.alloc(frame.size));
        break;
      case "pong":
        socket.data.pong();
        break;
      case "buffered":
        socket.buffered = frame.size;
        break;
      case "closed":
        socket.onClosed(frame.code);
        break;
    }
  }

  async #open(id: number, { url, headers }: UpgradeRequest): Promise<void> {
    const request = new Request(url, { headers });
    this.#upgrading.set(request, id);
    this.deps.carry(request, this);
    const response = await this.deps.handle(request);
    if (this.#sockets.has(id)) return;
    const refusal = { status: response.status, headers: [...response.headers], body: await response.text() };
    this.sendFrame({ type: "refuse", id, refusal });
  }
}

/** The leader's end of a WebSocket at the proxy, with the interface of Bun's WebSocket. */
class ForwardedSocket implements NetworkSocket {
  buffered = 0;
  readonly #topics = new Set<string>();
  #closed = false;

  constructor(
    readonly id: number,
    readonly data: SocketData,
    private readonly proxy: ForwardedSockets,
  ) {}

  send(data: string | Uint8Array): void {
    const { id } = this;
    if (this.#closed) return;
    if (typeof data === "string") this.proxy.sendFrame({ type: "text", id, text: data });
    else this.proxy.sendFrame({ type: "bytes", id, data: Buffer.from(data) });
  }

  close(code: number, reason: string): void {
    if (this.#closed) return;
    this.proxy.sendFrame({ type: "close", id: this.id, code, reason });
    this.onClosed(code);
  }

  ping(): void {
    this.proxy.sendFrame({ type: "ping", id: this.id });
  }

  subscribe(topic: string): void {
    if (this.#closed || this.#topics.has(topic)) return;
    this.#topics.add(topic);
    this.proxy.countSubscriber(topic, 1);
    this.proxy.sendFrame({ type: "subscribe", id: this.id, topic });
  }

  unsubscribe(topic: string): void {
    if (!this.#topics.delete(topic)) return;
    this.proxy.countSubscriber(topic, -1);
    if (!this.#closed) this.proxy.sendFrame({ type: "unsubscribe", id: this.id, topic });
  }

  getBufferedAmount(): number {
    return this.buffered;
  }

  onClosed(code: number): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const topic of this.#topics) this.proxy.countSubscriber(topic, -1);
    this.proxy.remove(this.id);
    this.data.close(this, code);
  }
}
