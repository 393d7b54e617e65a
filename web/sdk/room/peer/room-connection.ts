import { CLOSE_CODES } from "../../../../src/protocol/close-codes.ts";
import type { JoinAck, Push, Roster } from "../../../../src/protocol/signaling.ts";
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
  roster: Roster | undefined;
  /** The public key for the key agreement with the other participants. */
  publicKey?: string;
  onWaiting: WaitingListener;
  onLobby?: () => void;
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
/** A minute longer than the server lets anyone wait. */
const LOBBY_TIMEOUT_MS = 11 * 60_000;

/** A socket with the session that it joined. */
type Link = {
  readonly socket: ReconnectingSocket<RtcProtocol>;
  session: { sessionId: string; resumeToken: string } | null;
  lastSeq: number;
  joined: { ack: JoinAck; mode: JoinMode } | null;
  bye: Extract<Push, { type: "bye" }> | null;
};

/** The signaling connection to a room: it joins, resumes within the server's window, and joins again after it. */
export class RoomConnection {
  readonly #options: RoomConnectionOptions;
  #link: Link;

  constructor(options: RoomConnectionOptions) {
    this.#options = options;
    this.#link = this.#open(options.token, options.tokenProvider);
  }

  get token(): string {
    return this.#link.socket.token;
  }

  get state(): ConnectionState {
    return this.#link.socket.state;
  }

  get open(): boolean {
    return this.#link.socket.open;
  }

  async start(): Promise<void> {
    await this.#link.socket.start();
    addEventListener("pagehide", this.#onPageHide);
  }

  /** Requests are not retried; the state that they change is sent again after the next join. */
  readonly request: RtcRequest = (type, fields, timeoutMs) => this.#link.socket.request(type, fields, timeoutMs);

  /** Resolves with whether the server responds in time; if it does not, the socket is replaced. */
  probe(withinMs?: number): Promise<boolean> {
    return this.#link.socket.probe(withinMs);
  }

  /** Drops the session, so that the next connection joins with a new media connection. */
  startOver(): void {
    this.#link.session = null;
    this.#link.socket.reconnect();
  }

  /** Closes the socket and resumes the session on a new one, as after a network failure. */
  reconnect(): void {
    this.#link.socket.reconnect();
  }

  /** Joins the token's room, and leaves the current one only then. */
  async move(token: string): Promise<void> {
    // The page's tokens are for the room that it joined itself.
    const next = this.#open(token, undefined);
    await next.socket.start();
    const previous = this.#link;
    this.#link = next;
    if (previous.socket.state === "DISCONNECTED") return next.socket.end("DISCONNECTED", null);
    this.#joined(next);
    await leave(previous);
  }

  async leave(): Promise<void> {
    await leave(this.#link);
  }

  #open(token: string, tokenProvider: TokenProvider | undefined): Link {
    const { endpoint, onState, onWaiting, onPush } = this.#options;
    const isCurrent = () => this.#link === link;
    const socket = new ReconnectingSocket<RtcProtocol>(endpoint, token, tokenProvider, {
      establish: (socket) => this.#join(link, socket),
      onConnected: () => isCurrent() && this.#joined(link),
      onFrame: (push) => {
        if (push.type === "lobby.admitted" || push.seq <= link.lastSeq) return;
        link.lastSeq = push.seq;
        if (push.type === "bye") link.bye = push;
        else if (isCurrent()) onPush(push);
      },
      onState: (state, error) => {
        if (!isCurrent()) return;
        if (state === "DISCONNECTED" || state === "FAILED") removeEventListener("pagehide", this.#onPageHide);
        onState(state, error);
      },
      onWaiting,
      onClose: (closed) => closeAction(link, closed),
    });
    const link: Link = { socket, session: null, lastSeq: 0, joined: null, bye: null };
    return link;
  }

  #joined({ joined }: Link): void {
    if (joined) this.#options.onJoined(joined.ack, joined.mode);
  }

  async #join(link: Link, socket: RequestSocket<RtcProtocol>): Promise<void> {
    const { connectionId, sdk, roster, publicKey, onLobby } = this.#options;
    const resume = link.session ? { resume: { ...link.session, lastSeq: link.lastSeq } } : {};
    const join = () => socket.request("room.join", { connectionId, sdk, roster, publicKey, ...resume });
    try {
      const ack = await join().catch(async (error: StoaError) => {
        if (error.code !== "IN_LOBBY") throw error;
        onLobby?.();
        await socket.expect("lobby.admitted", LOBBY_TIMEOUT_MS);
        return join();
      });
      const { sessionId, resumeToken, seq } = ack;
      const resumed = seq === link.lastSeq ? "resumed" : "reread";
      link.joined = { ack, mode: ack.mode === "resumed" ? resumed : "new" };
      link.session = { sessionId, resumeToken };
      link.lastSeq = seq;
    } catch (error) {
      // The server has refused the session, so the next attempt joins without it.
      if (!isLost(error)) link.session = null;
      throw error;
    }
  }

  /** Leaves when the tab is closed; otherwise the participant would stay in the room until the server's timeout. */
  readonly #onPageHide = ({ persisted }: PageTransitionEvent) => {
    if (persisted) return;
    const { socket } = this.#link;
    socket.send({ type: "room.leave", id: "gone" });
    socket.end("DISCONNECTED", null);
  };
}

async function leave({ socket }: Link): Promise<void> {
  await socket.request("room.leave", {}, LEAVE_TIMEOUT_MS).catch(() => {});
  socket.end("DISCONNECTED", null);
}

function closeAction(link: Link, { code, error }: CloseInfo): CloseAction {
  const { bye } = link;
  link.bye = null;
  if (bye?.action === "stop") return { kind: "end", state: "DISCONNECTED", error: byeError(bye.reason) };
  if (FINAL_CODES.has(code)) return { kind: "end", state: "DISCONNECTED", error };
  if (bye?.action === "rejoin") link.session = null;
  if (TOKEN_CODES.has(code)) return { kind: "renew-token", error };
  return { kind: "reconnect", afterMs: bye?.retryAfterMs ?? 0 };
}

function byeError(reason: string): StoaError {
  const code = reason.toUpperCase();
  if (reason === "removed" || reason === "revoked")
    return new StoaError(code, "removed", "You were removed from the room.");
  if (reason === "replaced")
    return new StoaError(code, "replaced", "You joined this room in another tab or on another device.");
  return new StoaError(code, "room-closed", "The room was closed.");
}
