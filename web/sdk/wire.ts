import { AGAIN_PROTOCOL } from "../../src/protocol/again.ts";
import { type Deferred, deferred } from "./deferred.ts";
import type { Ack, Dialect, Fields, PushNamed, RequestType } from "./dialect.ts";
import { closeError, type ServerError, StoaError, serverError } from "./errors.ts";
import { unreachable } from "./unreachable.ts";

export type Closed = { code: number; error: StoaError | null };

export type WireOptions<D extends Dialect> = {
  url: string;
  token: string;
  /** Every frame that is not the answer to a request. */
  onFrame: (frame: D["push"]) => void;
  onClose: (closed: Closed) => void;
  /** The frame with which a server greets. On a socket that stays while the servers change it comes again. */
  greeting?: D["push"]["type"];
  /** Another server answers from now on; it greets next. */
  onAgain?: () => void;
  signal: AbortSignal;
  /** Of the page or runtime unless given. */
  WebSocket?: typeof WebSocket;
};

/** No shorter: each try that fails makes Firefox wait longer before it makes the next, up to a minute. */
const OPEN_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 15_000;
const PING_EVERY_MS = 5_000;
/** A ping unanswered for longer means that nobody is there: a laptop that slept keeps an open socket to nowhere. */
const SILENCE_MS = 7_000;
const PROBE_MS = 3_000;
/** The standard's number of the state; where the socket is given, there may be no global that has it. */
const OPEN = 1;
/** Our own verdict; the server never closes with it, but with higher ones. */
export const DEAD = 4000;

type Pending = {
  resolve: (ack: never) => void;
  reject: (error: StoaError) => void;
  timer: ReturnType<typeof setTimeout>;
};

/** One WebSocket: requests with exactly one answer each, and everything else as frames. It never reconnects by itself. */
export class Wire<D extends Dialect> {
  readonly #socket: WebSocket;
  readonly #options: WireOptions<D>;
  readonly #pending = new Map<string, Pending>();
  /** It may have come with the socket itself, in some runtimes before anyone could ask for it. */
  #first: { type: string } | null = null;
  #nextId = 1;
  #closed = false;
  #greeted = false;
  /** When the oldest ping without a sign of life since was sent. */
  #askedAt: number | null = null;
  #said: ServerError | undefined;
  #heartbeat: ReturnType<typeof setInterval> | undefined;
  #probe: { answer: Deferred<boolean>; dueAt: number; timer: ReturnType<typeof setTimeout> } | undefined;

  /** Resolves once the socket is open; rejects when it cannot be opened in time. */
  static open<D extends Dialect>(options: WireOptions<D>): Promise<Wire<D>> {
    return new Promise((resolve, reject) => {
      const opened = new Wire<D>({
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
        opened.#heartbeat = setInterval(() => opened.#beat(), PING_EVERY_MS);
        resolve(opened);
      });
    });
  }

  private constructor(options: WireOptions<D>) {
    this.#options = options;
    try {
      // As a subprotocol, not in the address: addresses end up in the logs of proxies.
      const again = options.greeting === undefined ? [] : [AGAIN_PROTOCOL];
      this.#socket = new (options.WebSocket ?? WebSocket)(options.url, [`token.${options.token}`, ...again]);
    } catch (cause) {
      throw new StoaError("INVALID_ENDPOINT", "invalid", "The endpoint or the token is not one.", { cause });
    }
    this.#socket.addEventListener("message", (event) => this.#receive(String(event.data)));
    this.#socket.addEventListener("close", (event) => this.#finish(event.code));
  }

  /** The answer's fields; rejects with the server's error, on close, and when no answer comes. */
  request<T extends RequestType<D>>(type: T, fields: Fields<D, T>, timeoutMs = REQUEST_TIMEOUT_MS): Promise<Ack<D, T>> {
    const id = String(this.#nextId++);
    const answer = this.#await<Ack<D, T>>(id, type, timeoutMs);
    this.#write({ type, id, ...fields });
    return answer;
  }

  /** A frame that the server sends by itself. */
  expect<T extends D["push"]["type"]>(type: T): Promise<PushNamed<D, T>> {
    if (this.#first?.type === type) return Promise.resolve(this.#first as PushNamed<D, T>);
    return this.#await<PushNamed<D, T>>(type, type, OPEN_TIMEOUT_MS);
  }

  /** Without waiting for an answer. */
  send(frame: D["frame"]): void {
    this.#write(frame);
  }

  /**
   * Something tells that the network may have changed: whether this socket still leads anywhere. One from which nothing comes
   * in time is closed.
   */
  probe(withinMs = PROBE_MS): Promise<boolean> {
    if (this.#closed) return Promise.resolve(false);
    const { answer = deferred<boolean>(), dueAt = Number.POSITIVE_INFINITY, timer } = this.#probe ?? {};
    const sooner = Math.min(dueAt, Date.now() + withinMs);
    if (sooner < dueAt) {
      clearTimeout(timer);
      const dead = setTimeout(() => this.close(DEAD), sooner - Date.now());
      this.#probe = { answer, dueAt: sooner, timer: dead };
    }
    this.#ask();
    return answer.promise;
  }

  close(code = 1000): void {
    this.#socket.close(code);
    this.#finish(code);
  }

  #await<F>(key: string, what: string, timeoutMs: number): Promise<F> {
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
    this.#askedAt = null;
    this.#probed(true);
    const frame = JSON.parse(text) as { type: string; id?: string };
    this.#first ??= frame;
    if (frame.type === this.#options.greeting) {
      if (this.#greeted) this.#startAgain();
      this.#greeted = true;
    }
    const key = frame.id ?? frame.type;
    const pending = this.#pending.get(key);
    if (pending) {
      this.#pending.delete(key);
      clearTimeout(pending.timer);
      if (frame.type === "error") pending.reject(serverError(frame as ServerError));
      else pending.resolve(frame as never);
    } else if (frame.type === "error") {
      this.#said = frame as ServerError;
    } else if (frame.type !== "pong" && frame.type !== "ack") {
      this.#options.onFrame(frame as D["push"]);
    }
  }

  /** Counts from a ping, not from the last frame: in a background tab timers may be a minute late, frames are not. */
  #beat(): void {
    if (this.#askedAt !== null && Date.now() - this.#askedAt > SILENCE_MS) this.close(DEAD);
    else this.#ask();
  }

  #probed(answered: boolean): void {
    clearTimeout(this.#probe?.timer);
    this.#probe?.answer.resolve(answered);
    this.#probe = undefined;
  }

  #ask(): void {
    this.#askedAt ??= Date.now();
    this.#write({ type: "ping" });
  }

  #write(frame: object): void {
    if (this.#socket.readyState === OPEN) this.#socket.send(JSON.stringify(frame));
  }

  #finish(code: number): void {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#heartbeat);
    this.#probed(false);
    // What was said before a close with a code of its own explains it; a lost network has nothing to do with it.
    const error = closeError(code, code > DEAD ? this.#said : undefined);
    this.#failPending(error);
    this.#options.onClose({ code, error });
  }

  /** The server that was asked is gone, and answers nothing any more. */
  #startAgain(): void {
    this.#first = null;
    this.#failPending(null);
    this.#options.onAgain?.();
  }

  #failPending(error: StoaError | null): void {
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(error ?? new StoaError("CLOSED", "closed", "The connection was lost before the answer came."));
    }
    this.#pending.clear();
  }
}
