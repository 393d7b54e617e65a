import type {
  NetworkSocket,
  SocketData,
  SocketEvents,
  SocketServer,
  TopicSocket,
} from "../../kernel/socket/sockets.ts";
import { bundled, GREETING, unbundled } from "./bundles.ts";
import { type Arrival, decodeEdgeFrame, type EdgeFrame, encodeLeaderFrame, type LeaderFrame } from "./frames.ts";

/** More than this waits here, and not in the connection, which is cut when it holds too much. */
const MOST_IN_CONNECTION = 1024 * 1024;
/** An edge so far behind is not coming back. */
const MOST_WAITING = 256 * 1024 * 1024;
const LOOK_AGAIN_MS = 5;

type Deps = {
  /** Answers a request as if it had come in here. */
  handle: (request: Request) => Promise<Response>;
  /** Makes sockets that the request asks for be sockets of this server. */
  carry: (request: Request, server: SocketServer) => void;
  /** An edge of an older version takes one frame at a time. */
  takesBundles: boolean;
};

/** One edge as the leader sees it: a server of its own, whose sockets are at the other end of one connection. */
export class CarriedSockets implements SocketServer, SocketEvents {
  readonly #sockets = new Map<number, CarriedSocket>();
  readonly #arriving = new WeakMap<Request, number>();
  /** How many of its sockets read a topic: what nobody reads there is not sent there. */
  readonly #topics = new Map<string, number>();
  readonly #waiting: string[] = [];
  #waitingSize = 0;
  #over = false;

  constructor(
    private readonly network: TopicSocket,
    private readonly deps: Deps,
  ) {
    if (deps.takesBundles) network.send(GREETING);
  }

  received(text: string | null): void {
    if (text === null) return;
    for (const encoded of unbundled(text)) this.#receive(decodeEdgeFrame(encoded));
  }

  closed(): void {
    this.#over = true;
    for (const socket of [...this.#sockets.values()]) socket.gone(1006);
  }

  upgrade(request: Request, { data, headers }: { data: SocketData; headers: Record<string, string> }): boolean {
    const id = this.#arriving.get(request);
    if (id === undefined || this.#over) return false;
    const socket = new CarriedSocket(id, data, this);
    this.#sockets.set(id, socket);
    this.say({ type: "accept", id, headers });
    data.open(socket);
    return true;
  }

  publish(topic: string, text: string): void {
    if (this.#topics.has(topic)) this.say({ type: "publish", topic, text });
  }

  say(frame: LeaderFrame): void {
    if (this.#over) return;
    const encoded = encodeLeaderFrame(frame);
    this.#waiting.push(encoded);
    this.#waitingSize += encoded.length;
    if (this.#waitingSize > MOST_WAITING) this.network.close(1013, "too far behind");
    else if (this.#waiting.length === 1) setImmediate(this.#sendWaiting);
  }

  count(topic: string, change: 1 | -1): void {
    const readers = (this.#topics.get(topic) ?? 0) + change;
    if (readers > 0) this.#topics.set(topic, readers);
    else this.#topics.delete(topic);
  }

  forget(id: number): void {
    this.#sockets.delete(id);
  }

  readonly #sendWaiting = (): void => {
    if (this.#over) return;
    let sent = 0;
    while (sent < this.#waiting.length && this.network.bufferedBytes < MOST_IN_CONNECTION) {
      const { text, next } = this.deps.takesBundles
        ? bundled(this.#waiting, sent)
        : { text: this.#waiting[sent] ?? "", next: sent + 1 };
      this.network.send(text);
      sent = next;
    }
    for (const encoded of this.#waiting.splice(0, sent)) this.#waitingSize -= encoded.length;
    if (this.#waiting.length > 0) setTimeout(this.#sendWaiting, LOOK_AGAIN_MS);
  };

  #receive(frame: EdgeFrame): void {
    if (frame.type === "open") return void this.#open(frame.id, frame.arrival);
    const socket = this.#sockets.get(frame.id);
    if (socket === undefined) return;
    switch (frame.type) {
      case "text":
        socket.data.message(socket, frame.text);
        break;
      case "bytes":
        socket.data.message(socket, frame.data);
        break;
      case "huge":
        // Its size is all that anybody looks at.
        socket.data.message(socket, Buffer.alloc(frame.size));
        break;
      case "pong":
        socket.data.pong();
        break;
      case "buffered":
        socket.buffered = frame.size;
        break;
      case "closed":
        socket.gone(frame.code);
        break;
    }
  }

  async #open(id: number, { url, headers }: Arrival): Promise<void> {
    const request = new Request(url, { headers });
    this.#arriving.set(request, id);
    this.deps.carry(request, this);
    const response = await this.deps.handle(request);
    if (this.#sockets.has(id)) return;
    const refusal = { status: response.status, headers: [...response.headers], body: await response.text() };
    this.say({ type: "refuse", id, refusal });
  }
}

/** A socket at an edge, with what the framework's own can do. */
class CarriedSocket implements NetworkSocket {
  buffered = 0;
  readonly #topics = new Set<string>();
  #over = false;

  constructor(
    readonly id: number,
    readonly data: SocketData,
    private readonly edge: CarriedSockets,
  ) {}

  send(data: string | Uint8Array): void {
    const { id } = this;
    if (this.#over) return;
    if (typeof data === "string") this.edge.say({ type: "text", id, text: data });
    else this.edge.say({ type: "bytes", id, data: Buffer.from(data) });
  }

  close(code: number, reason: string): void {
    if (this.#over) return;
    this.edge.say({ type: "close", id: this.id, code, reason });
    this.gone(code);
  }

  ping(): void {
    this.edge.say({ type: "ping", id: this.id });
  }

  subscribe(topic: string): void {
    if (this.#over || this.#topics.has(topic)) return;
    this.#topics.add(topic);
    this.edge.count(topic, 1);
    this.edge.say({ type: "subscribe", id: this.id, topic });
  }

  unsubscribe(topic: string): void {
    if (!this.#topics.delete(topic)) return;
    this.edge.count(topic, -1);
    if (!this.#over) this.edge.say({ type: "unsubscribe", id: this.id, topic });
  }

  getBufferedAmount(): number {
    return this.buffered;
  }

  gone(code: number): void {
    if (this.#over) return;
    this.#over = true;
    for (const topic of this.#topics) this.edge.count(topic, -1);
    this.edge.forget(this.id);
    this.data.close(this, code);
  }
}
