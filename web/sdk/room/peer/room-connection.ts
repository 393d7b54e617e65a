import { CLOSE_CODES } from "../../../../src/protocol/close-codes.ts";
import type { JoinAck, Push } from "../../../../src/protocol/signaling.ts";
import type { ConnectionState, TokenProvider, WaitingListener } from "../../connection-state.ts";
import { isLost, StoaError } from "../../errors.ts";
import type { RtcProtocol, RtcRequest } from "../../protocol.ts";
import { type CloseAction, ReconnectingSocket } from "../../reconnecting-socket.ts";
import type { CloseInfo, RequestSocket } from "../../request-socket.ts";

/**
 * `new` starts a new session. `resumed` keeps media and participants, and the missed pushes follow. `reread` keeps media,
 * but too much was missed, so the participants in the acknowledgement replace the known ones.
 */
export type JoinMode = "new" | "resumed" | "reread";

export type RoomConnectionOptions = {
  endpoint: string;
  token: string;
  tokenProvider: TokenProvider | undefined;
  connectionId: string;
  sdk: string;
  onWaiting: WaitingListener;
  onState: (state: ConnectionState, error: StoaError | null) => void;
  onJoined: (ack: JoinAck, mode: JoinMode) => void;
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

/** The signaling connection to a room: it joins, resumes within the server's window, and joins again after it. */
export class RoomConnection {
  readonly #options: RoomConnectionOptions;
  readonly #socket: ReconnectingSocket<RtcProtocol>;
  #session: { sessionId: string; resumeToken: string } | null = null;
  #lastSeq = 0;
  #joined: { ack: JoinAck; mode: JoinMode } | null = null;
  #bye: Extract<Push, { type: "bye" }> | null = null;

  constructor(options: RoomConnectionOptions) {
    this.#options = options;
    this.#socket = new ReconnectingSocket(options.endpoint, options.token, options.tokenProvider, {
      establish: (socket) => this.#join(socket),
      onConnected: () => this.#joined && options.onJoined(this.#joined.ack, this.#joined.mode),
      onFrame: (push) => this.#receive(push),
      onState: (state, error) => {
        if (state === "DISCONNECTED" || state === "FAILED") removeEventListener("pagehide", this.#onPageHide);
        options.onState(state, error);
      },
      onWaiting: options.onWaiting,
      onClose: (closed) => this.#closeAction(closed),
    });
  }

  get token(): string {
    return this.#socket.token;
  }

  get state(): ConnectionState {
    return this.#socket.state;
  }

  get open(): boolean {
    return this.#socket.open;
  }

  async start(): Promise<void> {
    await this.#socket.start();
    addEventListener("pagehide", this.#onPageHide);
  }

  /** Requests are not retried; the state that they change is sent again after the next join. */
  get request(): RtcRequest {
    return this.#socket.request;
  }

  /** Resolves with whether the server responds in time; if it does not, the socket is replaced. */
  probe(withinMs?: number): Promise<boolean> {
    return this.#socket.probe(withinMs);
  }

  /** Drops the session, so that the next connection joins with a new media connection. */
  startOver(): void {
    this.#session = null;
    this.#socket.reconnect();
  }

  /** Closes the socket and resumes the session on a new one, as after a network failure. */
  reconnect(): void {
    this.#socket.reconnect();
  }

  async leave(): Promise<void> {
    await this.#socket.request("room.leave", {}, LEAVE_TIMEOUT_MS).catch(() => {});
    this.#socket.end("DISCONNECTED", null);
  }

  async #join(socket: RequestSocket<RtcProtocol>): Promise<void> {
    const { connectionId, sdk } = this.#options;
    const resume = this.#session ? { resume: { ...this.#session, lastSeq: this.#lastSeq } } : {};
    try {
      const ack = await socket.request("room.join", { connectionId, sdk, ...resume });
      const { sessionId, resumeToken, seq } = ack;
      const resumed = seq === this.#lastSeq ? "resumed" : "reread";
      this.#joined = { ack, mode: ack.mode === "resumed" ? resumed : "new" };
      this.#session = { sessionId, resumeToken };
      this.#lastSeq = seq;
    } catch (error) {
      // The server has refused the session, so the next attempt joins without it.
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

  #closeAction({ code, error }: CloseInfo): CloseAction {
    const bye = this.#bye;
    this.#bye = null;
    if (bye?.action === "stop") return { kind: "end", state: "DISCONNECTED", error: byeError(bye.reason) };
    if (FINAL_CODES.has(code)) return { kind: "end", state: "DISCONNECTED", error };
    if (bye?.action === "rejoin") this.#session = null;
    if (TOKEN_CODES.has(code)) return { kind: "renew-token", error };
    return { kind: "reconnect", afterMs: bye?.retryAfterMs ?? 0 };
  }

  /** Leaves when the tab is closed; otherwise the participant would stay in the room until the server's timeout. */
  readonly #onPageHide = ({ persisted }: PageTransitionEvent) => {
    if (persisted) return;
    this.#socket.send({ type: "room.leave", id: "gone" });
    this.#socket.end("DISCONNECTED", null);
  };
}

function byeError(reason: string): StoaError {
  const code = reason.toUpperCase();
  if (reason === "removed" || reason === "revoked")
    return new StoaError(code, "removed", "You were removed from the room.");
  if (reason === "replaced")
    return new StoaError(code, "replaced", "You joined this room in another tab or on another device.");
  return new StoaError(code, "room-closed", "The room was closed.");
}
