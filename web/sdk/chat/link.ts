import type { ChatConnected } from "../../../src/protocol/chat.ts";
import { Backoff, pause } from "../backoff.ts";
import type { ConnectionState, TokenProvider } from "../connection-state.ts";
import { StoaError } from "../errors.ts";
import { type Closed, type Frame, Wire } from "../wire.ts";

export type LinkEvents = {
  onState: (state: ConnectionState, error: StoaError | null) => void;
  onFrame: (frame: Frame) => void;
  /** The socket is up again; rejoin and resend before anything else. */
  onReady: (connected: ChatConnected) => Promise<void>;
};

/** Close codes after which a new token, not the old one, may help. */
const TOKEN_CLOSED = new Set([4401, 4440]);
/** Close codes that coming back cannot cure. */
const FINAL = new Set([4403]);

/** Keeps one chat socket open: opens, resumes, backs off, renews the token, until it is told to stop. */
export class ChatLink {
  #wire: Wire | null = null;
  #state: ConnectionState = "CONNECTING";
  readonly #stop = new AbortController();
  readonly #backoff = new Backoff();

  constructor(
    readonly endpoint: string,
    private token_: string,
    readonly tokenProvider: TokenProvider | undefined,
    readonly events: LinkEvents,
  ) {}

  get token(): string {
    return this.token_;
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** The first connection: its failure is the caller's, who may have passed a wrong token. */
  async start(): Promise<void> {
    await this.#open();
    addEventListener("online", this.#hurry);
    addEventListener("visibilitychange", this.#hurry);
  }

  request<Ack>(type: string, fields: object): Promise<Ack> {
    if (!this.#wire) return Promise.reject(new StoaError("CLOSED", "closed", "The chat is not connected."));
    return this.#wire.request(type, fields);
  }

  send(frame: object): void {
    this.#wire?.send(frame);
  }

  stop(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    removeEventListener("online", this.#hurry);
    removeEventListener("visibilitychange", this.#hurry);
    this.#wire?.close();
    this.#enter("DISCONNECTED", null);
  }

  async renew(): Promise<void> {
    if (!this.tokenProvider) return;
    this.token_ = await this.tokenProvider();
    await this.request("token.refresh", { token: this.token_ });
  }

  async #open(): Promise<void> {
    const connected = Promise.withResolvers<ChatConnected>();
    let established = false;
    const wire = await Wire.open({
      url: this.endpoint,
      token: this.token_,
      onFrame: (frame) => {
        if (frame.type === "connected") connected.resolve(frame as unknown as ChatConnected);
        else this.events.onFrame(frame);
      },
      onClose: (closed) => {
        connected.reject(closed.error ?? new StoaError("CLOSED", "network", "The connection was lost."));
        if (established) void this.#lost(closed);
      },
    });
    try {
      // A refused socket is accepted first and then closed with its code: only `connected` tells them apart.
      const hello = await connected.promise;
      this.#wire = wire;
      await this.events.onReady(hello);
      this.#stop.signal.throwIfAborted();
    } catch (error) {
      this.#wire = null;
      wire.close();
      throw error;
    }
    established = true;
    this.#backoff.reset();
    this.#enter("CONNECTED", null);
  }

  async #lost({ code, error }: Closed): Promise<void> {
    this.#wire = null;
    if (this.#stop.signal.aborted) return;
    if (FINAL.has(code) || (TOKEN_CLOSED.has(code) && !this.tokenProvider)) {
      this.stop();
      this.#enter("FAILED", error);
      return;
    }
    this.#enter("RECONNECTING", error);
    let renew = TOKEN_CLOSED.has(code);
    while (!this.#stop.signal.aborted) {
      await pause(this.#backoff.next(), this.#stop.signal);
      if (this.#stop.signal.aborted) return;
      try {
        if (renew && this.tokenProvider) this.token_ = await this.tokenProvider();
        await this.#open();
        return;
      } catch (failure) {
        if (this.#stop.signal.aborted) return;
        const { reason } = failure as StoaError;
        const tokenBad = reason === "token-expired" || reason === "token-invalid";
        if (reason === "not-allowed" || (tokenBad && !this.tokenProvider)) {
          this.stop();
          this.#enter("FAILED", failure as StoaError);
          return;
        }
        renew = tokenBad;
      }
    }
  }

  /** Woken up or back online: find out at once whether the socket still lives. */
  readonly #hurry = () => this.#wire?.send({ type: "ping" });

  #enter(state: ConnectionState, error: StoaError | null): void {
    if (this.#state === state) return;
    this.#state = state;
    this.events.onState(state, error);
  }
}
