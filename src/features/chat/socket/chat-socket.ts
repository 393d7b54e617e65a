import { iso, type Now } from "../../../kernel/clock.ts";
import type { ChatTokenCaller } from "../../../kernel/http/callers.ts";
import { errorFrame, type FrameError, frameError, frameErrorOf } from "../../../kernel/socket/frame-error.ts";
import type { FrameAbuse, FrameReading } from "../../../kernel/socket/frame-reader.ts";
import type { SocketEvents, TopicSocket } from "../../../kernel/socket/sockets.ts";
import { type ChatClientFrame, type ChatServerFrame, TOKEN_EXPIRING_SECONDS } from "../../../protocol/chat.ts";
import { CHAT_CLOSE_CODES } from "../../../protocol/close-codes.ts";
import type { ConversationRef } from "./conversation-ref.ts";

/** What a chat socket leaves to those who made it. */
export type ChatSocketDeps = {
  now: Now;
  heartbeatMs: number;
  framesPerWindow: number;
  /** Does what a frame asks for; what it answers becomes the `ack`. */
  run: (socket: ChatSocket, frame: ChatClientFrame) => object | Promise<object>;
  /** It lives, and so does its user in every conversation it has joined. */
  onSignOfLife: (socket: ChatSocket) => void;
  /** `clean`: its user meant to go, or may not come back. */
  onClosed: (socket: ChatSocket, code: number, clean: boolean) => void;
  /** A fault of ours, which its client is told nothing of. */
  onError: (error: unknown) => void;
};

type State = { kind: "open"; warned: boolean } | { kind: "closed" };

/** Presence needs no more signs of life than this. */
const TOUCH_EVERY_MS = 1000;

const ABUSE_CODES: Record<FrameAbuse, number> = {
  tooLarge: CHAT_CLOSE_CODES.frameTooLarge,
  tooMany: CHAT_CLOSE_CODES.tooManyConnections,
  malformed: CHAT_CLOSE_CODES.malformed,
};

/** One chat socket: reads frames, answers each, and holds what it has joined. */
export class ChatSocket implements SocketEvents {
  #state: State = { kind: "open", warned: false };
  #caller: ChatTokenCaller;
  #seenAt: number;
  #pingedAt: number;
  #touchedAt: number;
  /** Kept by the hub. */
  readonly joined = new Map<string, ConversationRef>();
  messagesSent = 0;
  /** Of what one commit has brought to disk: they leave together. */
  #acks: string[] = [];

  constructor(
    readonly id: string,
    readonly network: TopicSocket,
    caller: ChatTokenCaller,
    private readonly read: (text: string | null, bytes: number) => FrameReading<ChatClientFrame>,
    private readonly deps: ChatSocketDeps,
  ) {
    this.#caller = caller;
    this.#seenAt = this.#pingedAt = this.#touchedAt = deps.now();
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
    this.#signOfLife();
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
    this.#sendAcks();
    this.#close(code, code === CHAT_CLOSE_CODES.unauthorized);
    this.network.close(code, reason);
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
    const named = id === undefined ? {} : { id };
    const answered = (body: object) =>
      JSON.stringify(frame.type === "ping" ? { type: "pong", ...named } : { type: "ack", ...named, ...body });
    const fail = (error: unknown) => {
      const known = frameErrorOf(error);
      if (!known) this.deps.onError(error);
      this.#refuse(known ?? frameError("SVC_INTERNAL_ERROR"), id);
    };
    try {
      const answer = this.deps.run(this, frame);
      if (answer instanceof Promise) answer.then((body) => this.#sendSoon(answered(body)), fail);
      else this.send(answered(answer));
    } catch (error) {
      fail(error);
    }
  }

  /** After all other answers that the same commit has made possible. */
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

  #signOfLife(): void {
    const at = this.deps.now();
    this.#seenAt = at;
    if (at - this.#touchedAt < TOUCH_EVERY_MS) return;
    this.#touchedAt = at;
    this.deps.onSignOfLife(this);
  }

  #close(code: number, clean: boolean): void {
    this.#state = { kind: "closed" };
    this.deps.onClosed(this, code, clean);
  }
}
