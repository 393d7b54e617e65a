import { Backoff, pause } from "./backoff.ts";
import type { ConnectionState, TokenProvider } from "./connection-state.ts";
import { deferred } from "./deferred.ts";
import type { Ack, Dialect, Fields, Request, RequestType } from "./dialect.ts";
import { isLost, StoaError } from "./errors.ts";
import { Reach } from "./reach.ts";
import { onWake } from "./wake.ts";
import { type Closed, DEAD, Wire } from "./wire.ts";

/** What to make of a socket that was closed. */
export type Verdict =
  | { kind: "again"; afterMs: number }
  | { kind: "renew"; error: StoaError | null }
  | { kind: "end"; state: "DISCONNECTED" | "FAILED"; error: StoaError | null };

export type LinkHooks<D extends Dialect> = {
  /** On a socket that is open: say who we are and take up where we were. What it throws fails the attempt. */
  establish: (wire: Wire<D>) => Promise<void>;
  /** The link is connected, for the first time or again. */
  onConnected: () => void;
  onFrame: (frame: D["push"]) => void;
  onState: (state: ConnectionState, error: StoaError | null) => void;
  /** The first connection has to wait, because the server was asked too often. */
  onWaiting: (error: StoaError, seconds: number) => void;
  judge: (closed: Closed) => Verdict;
  /** Of the page or runtime unless given. */
  WebSocket?: typeof WebSocket;
  /** The frame with which a server greets, where there is one: coming again it means that `establish` is to be, too. */
  greeting?: D["push"]["type"];
};

/** Reasons that coming back cannot cure. */
const FINAL = new Set(["not-allowed", "not-found", "room-closed", "replaced", "removed", "invalid"]);

/** How long to wait for a server that has said "too often" and not until when. */
const UNTOLD_SECONDS = 10;
/** All waiting before the first connection together; whoever called would like an answer. */
const LONGEST_WAIT_SECONDS = 150;

/** Keeps one socket open: opens, backs off, renews the token, until it is told to stop or told to go. */
export class Link<D extends Dialect> {
  readonly #hooks: LinkHooks<D>;
  readonly #stop = new AbortController();
  readonly #backoff = new Backoff();
  readonly #reach: Reach;
  #wire: Wire<D> | null = null;
  #state: ConnectionState = "CONNECTING";
  #connected = deferred<void>();
  #stopListening = () => {};
  /** Counts greetings that came again. */
  #turn = 0;

  constructor(
    readonly endpoint: string,
    public token: string,
    readonly tokenProvider: TokenProvider | undefined,
    hooks: LinkHooks<D>,
  ) {
    this.#hooks = hooks;
    this.#reach = new Reach(endpoint);
    this.#await();
  }

  get state(): ConnectionState {
    return this.#state;
  }

  get open(): boolean {
    return this.#wire !== null;
  }

  /**
   * The first connection: its failure is the caller's, who may have passed a wrong token. Only a server that is asked too
   * often, and says when it will listen again, is waited for.
   */
  async start(): Promise<void> {
    try {
      await this.#openPatiently();
    } catch (error) {
      if (!isAboutToken(error as StoaError) || !this.tokenProvider) throw error;
      this.token = await this.tokenProvider();
      await this.#openPatiently();
    }
    this.#stopListening = onWake(() => void this.#wire?.probe());
  }

  async #openPatiently(): Promise<void> {
    for (let waitedSeconds = 0; ; ) {
      try {
        return await this.#open();
      } catch (failure) {
        const { reason, retryAfterSeconds = UNTOLD_SECONDS } = failure as StoaError;
        waitedSeconds += retryAfterSeconds;
        if (reason !== "rate-limited" || waitedSeconds > LONGEST_WAIT_SECONDS) throw failure;
        this.#hooks.onWaiting(failure as StoaError, retryAfterSeconds);
        await pause(retryAfterSeconds * 1000, this.#stop.signal);
      }
    }
  }

  /** Now or not at all. */
  readonly request: Request<D> = (type, fields, timeoutMs) => {
    if (!this.#wire) return Promise.reject(new StoaError("CLOSED", "closed", "There is no connection right now."));
    return this.#wire.request(type, fields, timeoutMs);
  };

  /** For what may be said twice without harm: waits for the connection, and asks again if it breaks before the answer. */
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
    this.#wire?.send(frame);
  }

  /** Whether the server answers; a socket over which it does not in time is given up for another. */
  reach(withinMs?: number): Promise<boolean> {
    return this.#wire?.probe(withinMs) ?? Promise.resolve(false);
  }

  /** Gives the socket up and comes back with another. */
  drop(): void {
    this.#wire?.close();
  }

  end(state: "DISCONNECTED" | "FAILED", error: StoaError | null): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#stopListening();
    this.#await();
    this.#connected.reject(error ?? new StoaError("CLOSED", "closed", "The connection was closed."));
    this.#wire = null;
    this.#enter(state, error);
  }

  async #open(): Promise<void> {
    let established = false;
    const wire = await Wire.open<D>({
      url: this.endpoint,
      token: this.token,
      signal: this.#stop.signal,
      WebSocket: this.#hooks.WebSocket,
      onFrame: this.#hooks.onFrame,
      greeting: this.#hooks.greeting,
      onAgain: () => {
        if (established) void this.#again(wire);
      },
      onClose: (closed) => {
        if (established) void this.#lost(closed);
      },
    });
    try {
      await this.#hooks.establish(wire);
    } catch (error) {
      wire.close();
      throw error;
    }
    if (this.#stop.signal.aborted) throw new StoaError("CLOSED", "closed", "The connection was closed.");
    established = true;
    this.#backoff.reset();
    this.#ready(wire);
  }

  #ready(wire: Wire<D>): void {
    this.#wire = wire;
    this.#enter("CONNECTED", null);
    this.#connected.resolve();
    this.#hooks.onConnected();
  }

  /** The socket stayed and the server behind it did not. */
  async #again(wire: Wire<D>): Promise<void> {
    const turn = ++this.#turn;
    if (this.#wire !== null) this.#await();
    this.#wire = null;
    this.#enter("RECONNECTING", null);
    try {
      await this.#hooks.establish(wire);
    } catch {
      // Unless the next greeting is the reason: a socket of its own is the surer way.
      if (turn === this.#turn) wire.close();
      return;
    }
    if (turn === this.#turn && !this.#stop.signal.aborted) this.#ready(wire);
  }

  async #lost(closed: Closed): Promise<void> {
    this.#wire = null;
    if (this.#stop.signal.aborted) return;
    this.#await();
    const verdict = this.#hooks.judge(closed);
    switch (verdict.kind) {
      case "end":
        return this.end(verdict.state, verdict.error);
      case "renew":
        this.#enter("RECONNECTING", verdict.error);
        return this.#reconnect(verdict.error, true);
      case "again":
        this.#enter("RECONNECTING", closed.error);
        await pause(verdict.afterMs, this.#stop.signal);
        return this.#reconnect(null, closed.code > DEAD);
    }
  }

  /** `told`: the server itself has closed the socket, so it is in reach. */
  async #reconnect(tokenError: StoaError | null, told: boolean): Promise<void> {
    let refused = tokenError;
    let inReach = told;
    while (!this.#stop.signal.aborted) {
      if (!inReach) await this.#reach.wait(this.#stop.signal);
      if (this.#stop.signal.aborted) return;
      inReach = false;
      try {
        if (refused) {
          if (!this.tokenProvider) return this.end("FAILED", refused);
          this.token = await this.tokenProvider();
        }
        await this.#open();
        return await this.#reach.opened(this.#stop.signal);
      } catch (failure) {
        const error = failure as StoaError;
        if (FINAL.has(error.reason)) return this.end("FAILED", error);
        refused = isAboutToken(error) ? error : null;
        await pause(Math.max(this.#backoff.next(), (error.retryAfterSeconds ?? 0) * 1000), this.#stop.signal);
      }
    }
  }

  /** From here on calls wait for the next connection. */
  #await(): void {
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
