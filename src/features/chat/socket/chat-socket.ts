import type { ChatTokenCaller } from "../../../kernel/http/callers.ts";
import { errorFrame, type FrameError, frameError, frameErrorOf } from "../../../kernel/socket/frame-error.ts";
import type { FrameAbuse, FrameReading } from "../../../kernel/socket/frame-reader.ts";
import type { SocketEvents, TopicSocket } from "../../../kernel/socket/sockets.ts";
import { iso, type Now } from "../../../kernel/time/clock.ts";
import { type ChatClientFrame, type ChatServerFrame, TOKEN_EXPIRING_SECONDS } from "../../../protocol/chat.ts";
import { CHAT_CLOSE_CODES } from "../../../protocol/close-codes.ts";

/** A conversation as sockets know it: its uuid inside the server, its conv_ id on the wire. */
export type ConversationRef = { id: string; publicId: string };

export type ChatSocketDeps = {
  now: Now;
  heartbeatMs: number;
  framesPerWindow: number;
  /** Executes a command; its result becomes the `ack`. */
  run: (socket: ChatSocket, frame: ChatClientFrame) => object | Promise<object>;
  /** The client sent something, which renews its user's presence. */
  onActivity: (socket: ChatSocket) => void;
  /** `clean`: the user left intentionally, or may not reconnect. */
  onClosed: (socket: ChatSocket, code: number, clean: boolean) => void;
  /** Called for internal errors; the client only receives the error code. */
  onError: (error: unknown) => void;
};

/** Presence is not renewed more often than this. */
const ACTIVITY_EVERY_MS = 1000;

const ABUSE_CODES: Record<FrameAbuse, number> = {
  tooLarge: CHAT_CLOSE_CODES.frameTooLarge,
  tooMany: CHAT_CLOSE_CODES.tooManyConnections,
  malformed: CHAT_CLOSE_CODES.malformed,
};

/** One chat socket: reads frames and answers each. */
export class ChatSocket implements SocketEvents {
  #state: { kind: "open"; warned: boolean } | { kind: "closed" } = { kind: "open", warned: false };
  #caller: ChatTokenCaller;
  #seenAt: number;
  #pingedAt: number;
  #activityAt: number;
  /** The joined conversations by uuid; the hub changes them. */
  readonly joined = new Map<string, ConversationRef>();
  messagesSent = 0;
  /** The acks of one commit, which are sent together. */
  #acks: string[] = [];

  constructor(
    readonly id: string,
    readonly network: TopicSocket,
    caller: ChatTokenCaller,
    private readonly read: (text: string | null, bytes: number) => FrameReading<ChatClientFrame>,
    private readonly deps: ChatSocketDeps,
  ) {
    this.#caller = caller;
    this.#seenAt = this.#pingedAt = this.#activityAt = deps.now();
  }

  get framesPerWindow(): number {
    return this.deps.framesPerWindow;
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
    this.#recordActivity();
    const reading = this.read(text, bytes);
    switch (reading.kind) {
      case "frame":
        this.#run(reading.frame);
        break;
      case "refused":
        this.#refuse(reading.error, reading.id);
        break;
      case "abuse":
        this.#refuse(reading.error, reading.id);
        this.end(ABUSE_CODES[reading.abuse], reading.error.code);
        break;
    }
  }

  pong(): void {
    if (this.#state.kind === "open") this.#recordActivity();
  }

  /** Called when the client or the network closed the socket. */
  closed(code: number): void {
    if (this.#state.kind === "closed") return;
    // A client that leaves sends 1000 or 1001; with any other code it may reconnect soon.
    this.#close(code, code === 1000 || code === 1001);
  }

  /** Closes the socket from this side. */
  end(code: number, reason: string): void {
    if (this.#state.kind === "closed") return;
    this.retire(code);
    this.network.close(code, reason);
  }

  /** Sends and reads nothing more. The network connection stays open. */
  retire(code: number): void {
    this.#sendAcks();
    this.#close(code, code === CHAT_CLOSE_CODES.unauthorized);
  }

  push(frame: ChatServerFrame): void {
    this.send(JSON.stringify(frame));
  }

  send(frame: string): void {
    if (this.#state.kind === "closed") return;
    this.#sendAcks();
    this.network.send(frame);
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
      this.network.ping();
    }
  }

  #run(frame: ChatClientFrame): void {
    const { id } = frame;
    const type = frame.type === "ping" ? "pong" : "ack";
    const ack = (body: object) => JSON.stringify({ type, ...(id === undefined ? {} : { id }), ...body });
    const fail = (error: unknown) => {
      const known = frameErrorOf(error);
      if (!known) this.deps.onError(error);
      this.#refuse(known ?? frameError("SVC_INTERNAL_ERROR"), id);
    };
    try {
      const result = this.deps.run(this, frame);
      if (result instanceof Promise) result.then((body) => this.#sendSoon(ack(body)), fail);
      else this.send(ack(result));
    } catch (error) {
      fail(error);
    }
  }

  /** Sends the ack together with the others of the same commit. */
  #sendSoon(ack: string): void {
    if (this.#acks.push(ack) === 1) queueMicrotask(() => this.#sendAcks());
  }

  #sendAcks(): void {
    if (this.#acks.length === 0) return;
    const acks = this.#acks;
    this.#acks = [];
    if (this.#state.kind === "open") this.network.sendTogether(acks);
  }

  #refuse(error: FrameError, id: string | undefined): void {
    this.push(errorFrame(error, id));
  }

  #recordActivity(): void {
    const at = this.deps.now();
    this.#seenAt = at;
    if (at - this.#activityAt < ACTIVITY_EVERY_MS) return;
    this.#activityAt = at;
    this.deps.onActivity(this);
  }

  #close(code: number, clean: boolean): void {
    this.#state = { kind: "closed" };
    this.deps.onClosed(this, code, clean);
  }
}
