import { CLOSE_CODES } from "../../../../src/protocol/close-codes.ts";
import type { JoinAck, Push } from "../../../../src/protocol/signaling.ts";
import type { ConnectionState, TokenProvider, WaitingListener } from "../../connection-state.ts";
import type { RtcDialect, RtcRequest } from "../../dialect.ts";
import { isLost, StoaError } from "../../errors.ts";
import { Link, type Verdict } from "../../link.ts";
import type { Closed, Wire } from "../../wire.ts";

/**
 * `new` starts over. `resumed` keeps media and participants, and what was missed follows as pushes; so it does with
 * `reread`, but so much was missed that the participants in the answer replace what is known of them.
 */
export type Joined = "new" | "resumed" | "reread";

export type RoomLinkOptions = {
  endpoint: string;
  token: string;
  tokenProvider: TokenProvider | undefined;
  connectionId: string;
  sdk: string;
  onWaiting: WaitingListener;
  onState: (state: ConnectionState, error: StoaError | null) => void;
  onJoined: (ack: JoinAck, how: Joined) => void;
  onPush: (push: Push) => void;
};

const TOKEN_CODES = new Set<number>([CLOSE_CODES.unauthorized, CLOSE_CODES.tokenExpired]);
const FINAL_CODES = new Set<number>([
  CLOSE_CODES.malformed,
  CLOSE_CODES.forbidden,
  CLOSE_CODES.roomNotFound,
  CLOSE_CODES.replaced,
  CLOSE_CODES.roomClosed,
  CLOSE_CODES.frameTooLarge,
]);
const LEAVE_TIMEOUT_MS = 2_000;

/** The RTC socket: joins, resumes within the server's window, and joins anew after it. */
export class RoomLink {
  readonly #options: RoomLinkOptions;
  readonly #link: Link<RtcDialect>;
  #session: { sessionId: string; resumeToken: string } | null = null;
  #lastSeq = 0;
  #joined: { ack: JoinAck; how: Joined } | null = null;
  #bye: Extract<Push, { type: "bye" }> | null = null;

  constructor(options: RoomLinkOptions) {
    this.#options = options;
    this.#link = new Link(options.endpoint, options.token, options.tokenProvider, {
      establish: (wire) => this.#join(wire),
      onConnected: () => this.#joined && options.onJoined(this.#joined.ack, this.#joined.how),
      onFrame: (push) => this.#receive(push),
      onState: (state, error) => {
        if (state === "DISCONNECTED" || state === "FAILED") removeEventListener("pagehide", this.#pageGone);
        options.onState(state, error);
      },
      onWaiting: options.onWaiting,
      judge: (closed) => this.#judge(closed),
    });
  }

  get token(): string {
    return this.#link.token;
  }

  get state(): ConnectionState {
    return this.#link.state;
  }

  get open(): boolean {
    return this.#link.open;
  }

  async start(): Promise<void> {
    await this.#link.start();
    addEventListener("pagehide", this.#pageGone);
  }

  /** Now or not at all: what was lost with the connection is stated anew after the next join. */
  get request(): RtcRequest {
    return this.#link.request;
  }

  /** Whether the server answers; a socket over which it does not in time is given up for another. */
  reach(withinMs?: number): Promise<boolean> {
    return this.#link.reach(withinMs);
  }

  /** Forgets the session: the next connection is a fresh join with fresh media. */
  startOver(): void {
    this.#session = null;
    this.#link.drop();
  }

  /** Cuts the socket and keeps the session, as a bad moment of the network does. */
  drop(): void {
    this.#link.drop();
  }

  async leave(): Promise<void> {
    await this.#link.request("room.leave", {}, LEAVE_TIMEOUT_MS).catch(() => {});
    this.#link.end("DISCONNECTED", null);
  }

  async #join(wire: Wire<RtcDialect>): Promise<void> {
    const { connectionId, sdk } = this.#options;
    const resume = this.#session ? { resume: { ...this.#session, lastSeq: this.#lastSeq } } : {};
    try {
      const ack = await wire.request("room.join", { connectionId, sdk, ...resume });
      const { sessionId, resumeToken, seq, mode } = ack;
      const resumed = seq === this.#lastSeq ? "resumed" : "reread";
      this.#joined = { ack, how: mode === "resumed" ? resumed : "new" };
      this.#session = { sessionId, resumeToken };
      this.#lastSeq = seq;
    } catch (error) {
      // Refused, whatever the session was worth: the next try is a fresh join.
      if (!isLost(error)) this.#session = null;
      throw error;
    }
  }

  #receive(push: Push): void {
    if (push.seq <= this.#lastSeq) return;
    this.#lastSeq = push.seq;
    if (push.type === "bye") this.#bye = push;
    else this.#options.onPush(push);
  }

  #judge({ code, error }: Closed): Verdict {
    const bye = this.#bye;
    this.#bye = null;
    if (bye?.action === "stop") return { kind: "end", state: "DISCONNECTED", error: byeError(bye.reason) };
    if (FINAL_CODES.has(code)) return { kind: "end", state: "DISCONNECTED", error };
    if (bye?.action === "rejoin") this.#session = null;
    if (TOKEN_CODES.has(code)) return { kind: "renew", error };
    return { kind: "again", afterMs: bye?.retryAfterMs ?? 0 };
  }

  /** A closed tab leaves at once; without a word it would stay in the room until the server gives it up. */
  readonly #pageGone = ({ persisted }: PageTransitionEvent) => {
    if (persisted) return;
    this.#link.send({ type: "room.leave", id: "gone" });
    this.#link.end("DISCONNECTED", null);
  };
}

function byeError(reason: string): StoaError {
  const removed = reason === "removed" || reason === "revoked";
  return new StoaError(
    reason.toUpperCase(),
    removed ? "removed" : reason === "replaced" ? "replaced" : "room-closed",
    removed ? "You were removed from the room." : `The room has ended for you (${reason}).`,
  );
}
