import { Backoff, pause } from "./backoff.ts";
import type { ConnectionState, TokenProvider } from "./connection-state.ts";
import { deferred } from "./deferred.ts";
import { isLost, StoaError } from "./errors.ts";
import type { Ack, Fields, Request, RequestType, SocketProtocol } from "./protocol.ts";
import { Reachability } from "./reachability.ts";
import { type CloseInfo, RequestSocket, UNRESPONSIVE } from "./request-socket.ts";
import { onWake } from "./wake.ts";

/** What to do after a socket was closed. */
export type CloseAction =
  | { kind: "reconnect"; afterMs: number }
  | { kind: "renew-token"; error: StoaError | null }
  | { kind: "end"; state: "DISCONNECTED" | "FAILED"; error: StoaError | null };

export type SocketHooks<D extends SocketProtocol> = {
  /** Joins or resumes on an open socket before anything else is sent. An error fails the attempt. */
  establish: (socket: RequestSocket<D>) => Promise<void>;
  /** Called after the first connection and after every reconnection. */
  onConnected: () => void;
  onFrame: (frame: D["push"]) => void;
  onState: (state: ConnectionState, error: StoaError | null) => void;
  /** Called when the first connection is rate limited and has to wait. */
  onWaiting: (error: StoaError, seconds: number) => void;
  onClose: (closed: CloseInfo) => CloseAction;
  /** Replaces the global `WebSocket`. */
  WebSocket?: typeof WebSocket;
  /** The type of the server's first frame, if it sends one; when it comes again, `establish` runs again. */
  greeting?: D["push"]["type"];
};

/** Reasons after which reconnecting is useless. */
const FINAL_REASONS = new Set(["not-allowed", "not-found", "room-closed", "replaced", "removed", "invalid"]);

/** How long to wait after a rate limit without `retryAfterSeconds`. */
const DEFAULT_RETRY_AFTER_SECONDS = 10;
/** The maximum of all waits before the first connection together, because the caller awaits the outcome. */
const MAX_WAIT_SECONDS = 150;

/** Keeps a socket open: it reconnects with backoff and renews the token until it is ended by either side. */
export class ReconnectingSocket<D extends SocketProtocol> {
  readonly #hooks: SocketHooks<D>;
  readonly #stop = new AbortController();
  readonly #backoff = new Backoff();
  readonly #reachability: Reachability;
  #socket: RequestSocket<D> | null = null;
  #state: ConnectionState = "CONNECTING";
  #connected = deferred<void>();
  #stopListening = () => {};
  /** Counts takeovers of the open socket by another server. */
  #greetings = 0;

  constructor(
    readonly endpoint: string,
    public token: string,
    readonly tokenProvider: TokenProvider | undefined,
    hooks: SocketHooks<D>,
  ) {
    this.#hooks = hooks;
    this.#reachability = new Reachability(endpoint);
    this.#expectConnection();
  }

  get state(): ConnectionState {
    return this.#state;
  }

  get open(): boolean {
    return this.#socket !== null;
  }

  /** Opens the first connection. Unlike later ones it is not retried, except after a rate limit. */
  async start(): Promise<void> {
    try {
      await this.#openWhenAllowed();
    } catch (error) {
      if (!isAboutToken(error as StoaError) || !this.tokenProvider) throw error;
      this.token = await this.tokenProvider();
      await this.#openWhenAllowed();
    }
    this.#stopListening = onWake(() => void this.#socket?.probe());
  }

  async #openWhenAllowed(): Promise<void> {
    for (let waitedSeconds = 0; ; ) {
      try {
        return await this.#open();
      } catch (failure) {
        const { reason, retryAfterSeconds = DEFAULT_RETRY_AFTER_SECONDS } = failure as StoaError;
        waitedSeconds += retryAfterSeconds;
        if (reason !== "rate-limited" || waitedSeconds > MAX_WAIT_SECONDS) throw failure;
        this.#hooks.onWaiting(failure as StoaError, retryAfterSeconds);
        await pause(retryAfterSeconds * 1000, this.#stop.signal);
      }
    }
  }

  /** Sends a request, or rejects if there is no connection. */
  readonly request: Request<D> = (type, fields, timeoutMs) => {
    if (!this.#socket) return Promise.reject(new StoaError("CLOSED", "closed", "There is no connection right now."));
    return this.#socket.request(type, fields, timeoutMs);
  };

  /** Sends an idempotent request: it waits for a connection and repeats the request if the connection is lost. */
  async call<T extends RequestType<D>>(type: T, fields: Fields<D, T>): Promise<Ack<D, T>> {
    for (;;) {
      await this.#connected.promise;
      try {
        return await this.request(type, fields);
      } catch (error) {
        if (!isLost(error)) throw error;
      }
    }
  }

  send(frame: D["frame"]): void {
    this.#socket?.send(frame);
  }

  /** Resolves with whether the server responds in time; if it does not, the socket is replaced. */
  probe(withinMs?: number): Promise<boolean> {
    return this.#socket?.probe(withinMs) ?? Promise.resolve(false);
  }

  /** Closes the socket and opens another. */
  reconnect(): void {
    this.#socket?.close();
  }

  end(state: "DISCONNECTED" | "FAILED", error: StoaError | null): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#stopListening();
    this.#expectConnection();
    this.#connected.reject(error ?? new StoaError("CLOSED", "closed", "The connection was closed."));
    this.#socket = null;
    this.#enter(state, error);
  }

  async #open(): Promise<void> {
    let established = false;
    const socket = await RequestSocket.open<D>({
      url: this.endpoint,
      token: this.token,
      signal: this.#stop.signal,
      WebSocket: this.#hooks.WebSocket,
      onFrame: this.#hooks.onFrame,
      greeting: this.#hooks.greeting,
      onServerReplaced: () => {
        if (established) void this.#reestablish(socket);
      },
      onClose: (closed) => {
        if (established) void this.#onClose(closed);
      },
    });
    try {
      await this.#hooks.establish(socket);
    } catch (error) {
      socket.close();
      throw error;
    }
    if (this.#stop.signal.aborted) throw new StoaError("CLOSED", "closed", "The connection was closed.");
    established = true;
    this.#backoff.reset();
    this.#ready(socket);
  }

  #ready(socket: RequestSocket<D>): void {
    this.#socket = socket;
    this.#enter("CONNECTED", null);
    this.#connected.resolve();
    this.#hooks.onConnected();
  }

  /** Another server has taken over the open socket, so the session has to be established again. */
  async #reestablish(socket: RequestSocket<D>): Promise<void> {
    const greeting = ++this.#greetings;
    if (this.#socket !== null) this.#expectConnection();
    this.#socket = null;
    this.#enter("RECONNECTING", null);
    try {
      await this.#hooks.establish(socket);
    } catch {
      // A failure that the next takeover caused is handled there; after any other a new socket is opened.
      if (greeting === this.#greetings) socket.close();
      return;
    }
    if (greeting === this.#greetings && !this.#stop.signal.aborted) this.#ready(socket);
  }

  async #onClose(closed: CloseInfo): Promise<void> {
    this.#socket = null;
    if (this.#stop.signal.aborted) return;
    this.#expectConnection();
    const action = this.#hooks.onClose(closed);
    switch (action.kind) {
      case "end":
        return this.end(action.state, action.error);
      case "renew-token":
        this.#enter("RECONNECTING", action.error);
        return this.#reconnect(action.error, true);
      case "reconnect":
        this.#enter("RECONNECTING", closed.error);
        await pause(action.afterMs, this.#stop.signal);
        return this.#reconnect(null, closed.code > UNRESPONSIVE);
    }
  }

  /** `isReachable` is true if the server itself has closed the socket. */
  async #reconnect(tokenError: StoaError | null, isReachable: boolean): Promise<void> {
    let refused = tokenError;
    let skipCheck = isReachable;
    while (!this.#stop.signal.aborted) {
      if (!skipCheck) await this.#reachability.wait(this.#stop.signal);
      if (this.#stop.signal.aborted) return;
      skipCheck = false;
      try {
        if (refused) {
          if (!this.tokenProvider) return this.end("FAILED", refused);
          this.token = await this.tokenProvider();
        }
        await this.#open();
        return await this.#reachability.opened(this.#stop.signal);
      } catch (failure) {
        const error = failure as StoaError;
        if (FINAL_REASONS.has(error.reason)) return this.end("FAILED", error);
        refused = isAboutToken(error) ? error : null;
        await pause(Math.max(this.#backoff.next(), (error.retryAfterSeconds ?? 0) * 1000), this.#stop.signal);
      }
    }
  }

  /** From now on calls wait for the next connection. */
  #expectConnection(): void {
    this.#connected = deferred();
    this.#connected.promise.catch(() => {});
  }

  #enter(state: ConnectionState, error: StoaError | null): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#hooks.onState(state, error);
  }
}

function isAboutToken({ reason }: StoaError): boolean {
  return reason === "token-expired" || reason === "token-invalid";
}
