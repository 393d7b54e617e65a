import { closeError, type ServerError, StoaError, serverError } from "./errors.ts";

export type Frame = { type: string; id?: string } & Record<string, unknown>;
export type Closed = { code: number; error: StoaError | null };

export type WireOptions = {
  url: string;
  token: string;
  /** Every frame that is not the answer to a request. */
  onFrame: (frame: Frame) => void;
  onClose: (closed: Closed) => void;
  /** Silence after which the connection counts as dead: a laptop that slept keeps an open socket to nowhere. */
  silenceMs?: number;
  openTimeoutMs?: number;
};

const REQUEST_TIMEOUT_MS = 15_000;

type Pending = {
  resolve: (ack: never) => void;
  reject: (error: StoaError) => void;
  timer: ReturnType<typeof setTimeout>;
};

/** One WebSocket: requests with exactly one answer each, and everything else as frames. It never reconnects by itself. */
export class Wire {
  readonly #socket: WebSocket;
  readonly #options: WireOptions;
  readonly #pending = new Map<string, Pending>();
  #nextId = 1;
  #closed = false;
  #lastHeardAt = Date.now();
  #heartbeat: ReturnType<typeof setInterval> | undefined;

  /** Resolves once the socket is open; rejects when it cannot be opened in time. */
  static open(options: WireOptions): Promise<Wire> {
    return new Promise((resolve, reject) => {
      let wire: Wire | null = null;
      const failed = (code: number) =>
        closeError(code) ?? new StoaError("UNREACHABLE", "network", "The server cannot be reached.");
      const timer = setTimeout(() => {
        reject(new StoaError("OPEN_TIMEOUT", "timeout", "The server did not answer in time."));
        wire?.close();
      }, options.openTimeoutMs ?? 10_000);
      wire = new Wire({
        ...options,
        onClose: (closed) => {
          clearTimeout(timer);
          reject(failed(closed.code));
          options.onClose(closed);
        },
      });
      const opened = wire;
      opened.#socket.addEventListener("open", () => {
        clearTimeout(timer);
        opened.#startHeartbeat();
        resolve(opened);
      });
    });
  }

  private constructor(options: WireOptions) {
    this.#options = options;
    // As a subprotocol, not in the address: addresses end up in the logs of proxies.
    this.#socket = new WebSocket(options.url, [`token.${options.token}`]);
    this.#socket.addEventListener("message", (event) => this.#receive(String(event.data)));
    this.#socket.addEventListener("close", (event) => this.#finish(event.code));
  }

  /** Bytes handed to the browser that have not left yet. */
  get bufferedAmount(): number {
    return this.#socket.bufferedAmount;
  }

  /** The answer's fields; rejects with the server's error, on close, and when no answer comes. */
  request<Ack>(type: string, fields: object = {}, timeoutMs = REQUEST_TIMEOUT_MS): Promise<Ack> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new StoaError("CLOSED", "closed", "The connection is closed."));
      const id = String(this.#nextId++);
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        reject(new StoaError("NO_ANSWER", "timeout", `The server did not answer ${type}.`));
      }, timeoutMs);
      this.#pending.set(id, { resolve, reject, timer });
      this.send({ type, id, ...fields });
    });
  }

  send(frame: object): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(frame));
  }

  close(code = 1000): void {
    this.#socket.close(code);
    this.#finish(code);
  }

  #receive(text: string): void {
    this.#lastHeardAt = Date.now();
    const frame = JSON.parse(text) as Frame;
    const pending = frame.id === undefined ? undefined : this.#pending.get(frame.id);
    if (pending && frame.id !== undefined && (frame.type === "ack" || frame.type === "error")) {
      this.#pending.delete(frame.id);
      clearTimeout(pending.timer);
      if (frame.type === "ack") pending.resolve(frame as never);
      else pending.reject(serverError(frame as ServerError));
    } else if (frame.type !== "pong") {
      this.#options.onFrame(frame);
    }
  }

  #startHeartbeat(): void {
    const silenceMs = this.#options.silenceMs ?? 12_000;
    this.#heartbeat = setInterval(() => {
      if (Date.now() - this.#lastHeardAt > silenceMs) this.close(4000);
      else this.send({ type: "ping" });
    }, silenceMs / 3);
  }

  #finish(code: number): void {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#heartbeat);
    const error = closeError(code);
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(error ?? new StoaError("CLOSED", "closed", "The connection was lost before the answer came."));
    }
    this.#pending.clear();
    this.#options.onClose({ code, error });
  }
}
