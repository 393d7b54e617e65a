import type { JoinAck, Push } from "../../../src/protocol/signaling.ts";
import { Backoff, pause } from "../backoff.ts";
import type { ConnectionState, TokenProvider } from "../connection-state.ts";
import { StoaError } from "../errors.ts";
import { type Closed, type Frame, Wire } from "../wire.ts";

export type RoomLinkDeps = {
  endpoint: string;
  token: string;
  tokenProvider: TokenProvider | undefined;
  connectionId: string;
  sdk: string;
  onState: (state: ConnectionState, error: StoaError | null) => void;
  /** Joined: `resumed` keeps media and participants, anything else starts over. */
  onJoined: (ack: JoinAck, resumed: boolean) => void;
  onPush: (push: Push) => void;
};

const TOKEN_CLOSED = new Set([4401, 4440]);
const FINAL = new Set([4400, 4403, 4404, 4409, 4410, 4413]);

/** Keeps the RTC socket: joins, resumes within the server's window, and joins anew after it. */
export class RoomLink {
  readonly #deps: RoomLinkDeps;
  readonly #stop = new AbortController();
  readonly #backoff = new Backoff({ firstMs: 250, maxMs: 8_000 });
  #token: string;
  #wire: Wire | null = null;
  #state: ConnectionState = "CONNECTING";
  #session: { sessionId: string; resumeToken: string } | null = null;
  #lastSeq = 0;
  #bye: Extract<Push, { type: "bye" }> | null = null;

  constructor(deps: RoomLinkDeps) {
    this.#deps = deps;
    this.#token = deps.token;
  }

  get token(): string {
    return this.#token;
  }

  get state(): ConnectionState {
    return this.#state;
  }

  get open(): boolean {
    return this.#wire !== null;
  }

  async start(): Promise<void> {
    await this.#join();
    addEventListener("online", this.#hurry);
    document.addEventListener("visibilitychange", this.#hurry);
  }

  request = <Ack>(type: string, fields: object = {}): Promise<Ack> => {
    if (!this.#wire) return Promise.reject(new StoaError("CLOSED", "closed", "The room is not connected right now."));
    return this.#wire.request<Ack>(type, fields);
  };

  /** Forgets the session: the next connection is a fresh join with fresh media. */
  startOver(): void {
    this.#session = null;
    this.#wire?.close(4000);
  }

  async leave(): Promise<void> {
    if (this.#stop.signal.aborted) return;
    await this.request("room.leave").catch(() => {});
    this.#end("DISCONNECTED", null);
  }

  async #join(): Promise<void> {
    let established = false;
    const early: Frame[] = [];
    const wire = await Wire.open({
      url: this.#deps.endpoint,
      token: this.#token,
      onFrame: (frame) => (established ? this.#push(frame) : early.push(frame)),
      onClose: (closed) => {
        if (established) void this.#lost(closed);
      },
    });
    try {
      const { connectionId, sdk } = this.#deps;
      const resume = this.#session ? { resume: { ...this.#session, lastSeq: this.#lastSeq } } : {};
      const ack = await wire.request<JoinAck>("room.join", { connectionId, sdk, ...resume });
      this.#stop.signal.throwIfAborted();
      const { sessionId, resumeToken } = ack;
      const resumed = ack.mode === "resumed";
      this.#session = { sessionId, resumeToken };
      if (!resumed) this.#lastSeq = ack.seq;
      this.#wire = wire;
      established = true;
      this.#backoff.reset();
      this.#enter("CONNECTED", null);
      this.#deps.onJoined(ack, resumed);
      for (const frame of early) this.#push(frame);
    } catch (error) {
      wire.close();
      throw error;
    }
  }

  #push(frame: Frame): void {
    const push = frame as unknown as Push;
    if (typeof push.seq === "number") {
      if (push.seq <= this.#lastSeq) return;
      this.#lastSeq = push.seq;
    }
    if (push.type === "bye") this.#bye = push;
    else this.#deps.onPush(push);
  }

  async #lost({ code, error }: Closed): Promise<void> {
    this.#wire = null;
    const bye = this.#bye;
    this.#bye = null;
    if (this.#stop.signal.aborted) return;
    if (bye?.action === "stop") return this.#end("DISCONNECTED", byeError(bye.reason));
    if (FINAL.has(code)) return this.#end("DISCONNECTED", error);
    if (bye?.action === "rejoin") this.#session = null;
    this.#enter("RECONNECTING", error);
    if (bye?.retryAfterMs) await pause(bye.retryAfterMs, this.#stop.signal);
    await this.#reconnect(TOKEN_CLOSED.has(code) ? error : null);
  }

  async #reconnect(tokenError: StoaError | null): Promise<void> {
    let refused = tokenError;
    while (!this.#stop.signal.aborted) {
      try {
        if (refused) {
          if (!this.#deps.tokenProvider) return this.#end("FAILED", refused);
          this.#token = await this.#deps.tokenProvider();
        }
        return await this.#join();
      } catch (failure) {
        if (this.#stop.signal.aborted) return;
        const error = failure as StoaError;
        const tokenBad = error.reason === "token-expired" || error.reason === "token-invalid";
        // Whatever the session was worth, the server would not take it: the next try is a fresh join.
        if (error.reason !== "network" && error.reason !== "timeout" && error.reason !== "closed") this.#session = null;
        if (isFinal(error)) return this.#end("FAILED", error);
        refused = tokenBad ? error : null;
        const waitMs = this.#backoff.next();
        await pause(Math.max(waitMs, (error.retryAfterSeconds ?? 0) * 1000), this.#stop.signal);
      }
    }
  }

  #end(state: "DISCONNECTED" | "FAILED", error: StoaError | null): void {
    this.#stop.abort();
    removeEventListener("online", this.#hurry);
    document.removeEventListener("visibilitychange", this.#hurry);
    this.#session = null;
    const wire = this.#wire;
    this.#wire = null;
    wire?.close();
    this.#enter(state, error);
  }

  readonly #hurry = () => this.#wire?.send({ type: "ping" });

  #enter(state: ConnectionState, error: StoaError | null): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#deps.onState(state, error);
  }
}

function isFinal({ reason }: StoaError): boolean {
  return ["not-allowed", "not-found", "room-closed", "replaced", "removed", "invalid"].includes(reason);
}

function byeError(reason: string): StoaError {
  const removed = reason === "removed" || reason === "revoked";
  return new StoaError(
    reason.toUpperCase(),
    removed ? "removed" : reason === "replaced" ? "replaced" : "room-closed",
    removed ? "You were removed from the room." : `The room has ended for you (${reason}).`,
  );
}
