import { REPEAT_PROTOCOL } from "../../src/protocol/again.ts";
import { type Deferred, deferred } from "./deferred.ts";
import { closeError, type ServerError, StoaError, serverError, unreachable } from "./errors.ts";
import type { Ack, Fields, PushOfType, RequestType, SocketProtocol } from "./protocol.ts";

export type CloseInfo = { code: number; error: StoaError | null };

export type RequestSocketOptions<D extends SocketProtocol> = {
  url: string;
  token: string;
  /** Called for every frame that is not an acknowledgement. */
  onFrame: (frame: D["push"]) => void;
  onClose: (closed: CloseInfo) => void;
  /** The type of the server's first frame. It comes again on a socket that outlives a takeover by another server. */
  greeting?: D["push"]["type"];
  /** Called when another server has taken over the socket. */
  onServerReplaced?: () => void;
  signal: AbortSignal;
  /** Replaces the global `WebSocket`. */
  WebSocket?: typeof WebSocket;
};

/** It is not shorter because each failed attempt makes Firefox delay the next one longer, up to a minute. */
const OPEN_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 15_000;
const PING_EVERY_MS = 5_000;
/** After this long without a pong the connection is dead: a laptop that slept keeps a socket that leads nowhere. */
const SILENCE_MS = 7_000;
const PROBE_MS = 3_000;
/** `WebSocket.OPEN`; with a `WebSocket` from the options there may be no global one. */
const OPEN = 1;
/** The close code for a server that does not respond. The server itself closes only with higher codes. */
export const UNRESPONSIVE = 4000;

type Pending = {
  resolve: (ack: never) => void;
  reject: (error: StoaError) => void;
  timer: ReturnType<typeof setTimeout>;
};

/** One WebSocket with requests that get exactly one response each, and pushed frames. It does not reconnect. */
export class RequestSocket<D extends SocketProtocol> {
  readonly #socket: WebSocket;
  readonly #options: RequestSocketOptions<D>;
  readonly #pending = new Map<string, Pending>();
  /** In some runtimes the first frame arrives together with `open`, before `expect` is called. */
  #firstFrame: { type: string } | null = null;
  #nextId = 1;
  #closed = false;
  #isGreeted = false;
  /** When the oldest ping was sent after which no frame has arrived. */
  #pingSentAt: number | null = null;
  #lastError: ServerError | undefined;
  #heartbeat: ReturnType<typeof setInterval> | undefined;
  #probe: { answer: Deferred<boolean>; dueAt: number; timer: ReturnType<typeof setTimeout> } | undefined;

  /** Resolves once the socket is open; rejects when it cannot be opened in time. */
  static open<D extends SocketProtocol>(options: RequestSocketOptions<D>): Promise<RequestSocket<D>> {
    return new Promise((resolve, reject) => {
      const opened = new RequestSocket<D>({
        ...options,
        onClose: (closed) => {
          clearTimeout(timer);
          options.signal.removeEventListener("abort", abort);
          reject(closeError(closed.code) ?? unreachable(options.url));
          options.onClose(closed);
        },
      });
      const abort = () => opened.close();
      options.signal.addEventListener("abort", abort);
      const timer = setTimeout(() => {
        reject(new StoaError("OPEN_TIMEOUT", "timeout", "The server did not answer in time."));
        opened.close();
      }, OPEN_TIMEOUT_MS);
      opened.#socket.addEventListener("open", () => {
        clearTimeout(timer);
        opened.#heartbeat = setInterval(() => opened.#checkLiveness(), PING_EVERY_MS);
        resolve(opened);
      });
    });
  }

  private constructor(options: RequestSocketOptions<D>) {
    this.#options = options;
    try {
      // The token travels as a subprotocol because addresses end up in the logs of proxies.
      const takeover = options.greeting === undefined ? [] : [REPEAT_PROTOCOL];
      this.#socket = new (options.WebSocket ?? WebSocket)(options.url, [`token.${options.token}`, ...takeover]);
    } catch (cause) {
      throw new StoaError("INVALID_ENDPOINT", "invalid", "The endpoint or the token is malformed.", { cause });
    }
    this.#socket.addEventListener("message", (event) => this.#receive(String(event.data)));
    this.#socket.addEventListener("close", (event) => this.#finish(event.code));
  }

  /** Resolves with the acknowledgement; rejects with the server's error, on close and on a timeout. */
  request<T extends RequestType<D>>(type: T, fields: Fields<D, T>, timeoutMs = REQUEST_TIMEOUT_MS): Promise<Ack<D, T>> {
    const id = String(this.#nextId++);
    const answer = this.#awaitFrame<Ack<D, T>>(id, type, timeoutMs);
    this.#write({ type, id, ...fields });
    return answer;
  }

  /** Resolves with the first pushed frame of this type. */
  expect<T extends D["push"]["type"]>(type: T, timeoutMs = OPEN_TIMEOUT_MS): Promise<PushOfType<D, T>> {
    if (this.#firstFrame?.type === type) return Promise.resolve(this.#firstFrame as PushOfType<D, T>);
    return this.#awaitFrame<PushOfType<D, T>>(type, type, timeoutMs);
  }

  /** Sends a frame without waiting for a response. */
  send(frame: D["frame"]): void {
    this.#write(frame);
  }

  /** Resolves with whether the server responds in time; the socket is closed if it does not. */
  probe(withinMs = PROBE_MS): Promise<boolean> {
    if (this.#closed) return Promise.resolve(false);
    const { answer = deferred<boolean>(), dueAt = Number.POSITIVE_INFINITY, timer } = this.#probe ?? {};
    const deadline = Math.min(dueAt, Date.now() + withinMs);
    if (deadline < dueAt) {
      clearTimeout(timer);
      const closeTimer = setTimeout(() => this.close(UNRESPONSIVE), deadline - Date.now());
      this.#probe = { answer, dueAt: deadline, timer: closeTimer };
    }
    this.#ping();
    return answer.promise;
  }

  close(code = 1000): void {
    this.#socket.close(code);
    this.#finish(code);
  }

  #awaitFrame<F>(key: string, what: string, timeoutMs: number): Promise<F> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new StoaError("CLOSED", "closed", "The connection is closed."));
      const timer = setTimeout(() => {
        this.#pending.delete(key);
        reject(new StoaError("NO_ANSWER", "timeout", `The server did not answer in time (${what}).`));
      }, timeoutMs);
      this.#pending.set(key, { resolve, reject, timer });
    });
  }

  #receive(text: string): void {
    if (this.#closed) return;
    this.#pingSentAt = null;
    this.#settleProbe(true);
    const frame = JSON.parse(text) as { type: string; id?: string };
    this.#firstFrame ??= frame;
    if (frame.type === this.#options.greeting) {
      if (this.#isGreeted) this.#serverReplaced();
      this.#isGreeted = true;
    }
    const key = frame.id ?? frame.type;
    const pending = this.#pending.get(key);
    if (pending) {
      this.#pending.delete(key);
      clearTimeout(pending.timer);
      if (frame.type === "error") pending.reject(serverError(frame as ServerError));
      else pending.resolve(frame as never);
    } else if (frame.type === "error") {
      this.#lastError = frame as ServerError;
    } else if (frame.type !== "pong" && frame.type !== "ack") {
      this.#options.onFrame(frame as D["push"]);
    }
  }

  /** The silence counts from a ping, not from the last frame: timers of a background tab may be a minute late. */
  #checkLiveness(): void {
    if (this.#pingSentAt !== null && Date.now() - this.#pingSentAt > SILENCE_MS) this.close(UNRESPONSIVE);
    else this.#ping();
  }

  #settleProbe(answered: boolean): void {
    clearTimeout(this.#probe?.timer);
    this.#probe?.answer.resolve(answered);
    this.#probe = undefined;
  }

  #ping(): void {
    this.#pingSentAt ??= Date.now();
    this.#write({ type: "ping" });
  }

  #write(frame: object): void {
    if (this.#socket.readyState === OPEN) this.#socket.send(JSON.stringify(frame));
  }

  #finish(code: number): void {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#heartbeat);
    this.#settleProbe(false);
    // An error frame explains a close by the server, but not a lost network.
    const error = closeError(code, code > UNRESPONSIVE ? this.#lastError : undefined);
    this.#failPending(error);
    this.#options.onClose({ code, error });
  }

  /** Requests to the previous server will never be answered. */
  #serverReplaced(): void {
    this.#firstFrame = null;
    this.#failPending(null);
    this.#options.onServerReplaced?.();
  }

  #failPending(error: StoaError | null): void {
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(error ?? new StoaError("CLOSED", "closed", "The connection was lost before the response arrived."));
    }
    this.#pending.clear();
  }
}
