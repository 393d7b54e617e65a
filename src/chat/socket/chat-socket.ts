import { iso } from "../../kernel/clock.ts";
import type { ChatTokenCaller } from "../../kernel/http/callers.ts";
import type { SocketEvents, TopicSocket } from "../../kernel/socket/sockets.ts";
import {
  type ChatErrorCode,
  type ChatErrorFrame,
  type ChatServerFrame,
  MALFORMED_FRAMES_ALLOWED,
  TOKEN_EXPIRING_SECONDS,
} from "../../protocol/chat.ts";
import { CHAT_CLOSE_CODES } from "../../protocol/close-codes.ts";
import { ApiError, frameCode } from "../../protocol/errors.ts";
import type { Commands } from "./commands.ts";
import type { Place } from "./conversation-ref.ts";
import { type Decode, malformed } from "./decode.ts";
import { type Hub, topicOf } from "./hub.ts";

/** A refusal that only the socket knows. */
export class SocketError extends Error {
  constructor(
    readonly code: ChatErrorCode,
    message: string,
  ) {
    super(message);
  }
}

export type SessionDeps = {
  hub: Hub;
  commands: Commands;
  decode: Decode;
  now: () => number;
  maxFrameBytes: number;
  heartbeatMs: number;
  onClosed: (session: Session, code: number) => void;
  onError: (error: unknown) => void;
};

type State = { kind: "open"; warned: boolean; malformed: number } | { kind: "closed" };

/** Presence needs no more signs of life than this. */
const TOUCH_EVERY_MS = 1000;

/** One connection: reads frames, answers each, and holds what it has joined. */
export class Session implements SocketEvents {
  #state: State = { kind: "open", warned: false, malformed: 0 };
  #caller: ChatTokenCaller;
  #seenAt: number;
  #pingedAt: number;
  #touchedAt: number;
  readonly joined = new Map<string, Place>();
  messagesSent = 0;

  constructor(
    readonly id: string,
    readonly socket: TopicSocket,
    caller: ChatTokenCaller,
    private readonly deps: SessionDeps,
  ) {
    this.#caller = caller;
    this.#seenAt = this.#pingedAt = this.#touchedAt = deps.now();
  }

  get caller(): ChatTokenCaller {
    return this.#caller;
  }
  get userId(): string {
    return this.#caller.userId;
  }
  get tokenId(): string {
    return this.#caller.tokenId;
  }

  received(text: string | null, bytes: number): void {
    if (this.#state.kind === "closed") return;
    this.#signOfLife();
    if (bytes > this.deps.maxFrameBytes) {
      this.end(CHAT_CLOSE_CODES.frameTooLarge, "frame too large");
      return;
    }
    const decoded = text === null ? malformed("A frame is text.") : this.deps.decode(text);
    if (decoded.ok) {
      this.#run(decoded.frame);
      return;
    }
    const { id, code, message } = decoded;
    this.push({ type: "error", ...(id === undefined ? {} : { id }), code, message });
    if (!decoded.malformed) return;
    this.#state.malformed += 1;
    if (this.#state.malformed >= MALFORMED_FRAMES_ALLOWED) this.end(CHAT_CLOSE_CODES.malformed, "malformed frames");
  }

  answered(): void {
    if (this.#state.kind === "open") this.#signOfLife();
  }

  /** By the other side, or by the network. */
  closed(code: number): void {
    if (this.#state.kind === "closed") return;
    // 1000 and 1001 are said by a client that goes; everything else may be back in a moment.
    this.#close(code, code === 1000 || code === 1001);
  }

  /** By us. */
  end(code: number, reason: string): void {
    if (this.#state.kind === "closed") return;
    this.#close(code, code === CHAT_CLOSE_CODES.unauthorized);
    this.socket.close(code, reason);
  }

  push(frame: ChatServerFrame): void {
    this.send(JSON.stringify(frame));
  }

  send(frame: string): void {
    if (this.#state.kind === "open") this.socket.send(frame);
  }

  join(place: Place): void {
    this.joined.set(place.id, place);
    this.deps.hub.join(this, place);
  }

  leave(place: Place): void {
    if (!this.joined.delete(place.id)) return;
    this.socket.unsubscribe(topicOf(place.id));
    this.deps.hub.leave(this, place, true);
  }

  refresh(caller: ChatTokenCaller): void {
    this.#caller = caller;
    if (this.#state.kind === "open") this.#state.warned = false;
  }

  sweep(at: number): void {
    if (this.#state.kind === "closed") return;
    const { expiresAt } = this.#caller;
    if (expiresAt <= at) {
      this.end(CHAT_CLOSE_CODES.tokenExpired, "token expired");
      return;
    }
    if (!this.#state.warned && expiresAt - at <= TOKEN_EXPIRING_SECONDS * 1000) {
      this.#state.warned = true;
      this.push({ type: "token.expiring", expiresAt: iso(expiresAt) });
    }
    const { heartbeatMs } = this.deps;
    if (at - this.#seenAt >= heartbeatMs && at - this.#pingedAt >= heartbeatMs) {
      this.#pingedAt = at;
      this.socket.ping();
    }
  }

  #run(frame: Parameters<Commands["run"]>[1]): void {
    const { id } = frame;
    const named = id === undefined ? {} : { id };
    const acknowledge = (body: object) =>
      this.send(
        JSON.stringify(frame.type === "ping" ? { type: "pong", ...named } : { type: "ack", ...named, ...body }),
      );
    const refuse = (error: unknown) => this.push({ ...errorFrame(error, this.deps.onError), ...named });
    try {
      const answer = this.deps.commands.run(this, frame);
      if (answer instanceof Promise) answer.then(acknowledge, refuse);
      else acknowledge(answer);
    } catch (error) {
      refuse(error);
    }
  }

  #signOfLife(): void {
    const at = this.deps.now();
    this.#seenAt = at;
    if (at - this.#touchedAt < TOUCH_EVERY_MS) return;
    this.#touchedAt = at;
    for (const place of this.joined.values()) this.deps.hub.presences.touch(place, this.userId);
  }

  #close(code: number, clean: boolean): void {
    this.#state = { kind: "closed" };
    for (const place of this.joined.values()) this.deps.hub.leave(this, place, clean);
    this.deps.onClosed(this, code);
  }
}

function errorFrame(error: unknown, onError: (error: unknown) => void): ChatErrorFrame {
  if (error instanceof SocketError) return { type: "error", code: error.code, message: error.message };
  if (!(error instanceof ApiError)) onError(error);
  const { code, message, extra } = error instanceof ApiError ? error : new ApiError("SVC_INTERNAL_ERROR");
  const { retryAfterSeconds } = extra;
  return {
    type: "error",
    code: frameCode(code),
    message,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
}
