import type { ChatConnected } from "../../../src/protocol/chat.ts";
import type {
  Conversation as ConversationRecord,
  NotificationLevel,
  ReportReason,
  Unread,
} from "../../../src/protocol/chat-records.ts";
import { CHAT_CLOSE_CODES } from "../../../src/protocol/close-codes.ts";
import { Emitter } from "../../../src/protocol/data/emitter.ts";
import {
  type ConnectionState,
  type TokenProvider,
  type WaitingListener,
  warnAboutWaiting,
} from "../connection-state.ts";
import { StoaError } from "../errors.ts";
import type { ChatProtocol } from "../protocol.ts";
import { type CloseAction, ReconnectingSocket } from "../reconnecting-socket.ts";
import type { CloseInfo, RequestSocket } from "../request-socket.ts";
import { query, Rest } from "../rest.ts";
import { Conversation } from "./conversation.ts";
import { type Ring, type RingOptions, Rings } from "./ring.ts";
import type { LocalMessage } from "./timeline.ts";

/** Options for `connectChat`. */
export type ChatOptions = {
  /** Renews the token; without it the chat ends when the token expires. */
  tokenProvider?: TokenProvider;
  /** Called when the first connection is rate limited and has to wait. */
  onWaiting?: WaitingListener;
  /** The WebSocket class for a runtime without a global one, such as Node 20: use that of `stoa/participant`. */
  WebSocket?: typeof WebSocket;
};

/** The events of a chat and their arguments; listen with `chat.on(name, …)`. */
export type ChatEvents = {
  /** The connection state has changed; `error` is the cause, if there is one. */
  connectionStateChanged: [state: ConnectionState, error: StoaError | null];
  /** A message in any joined conversation; the conversation emits it too. */
  message: [message: LocalMessage, conversation: Conversation];
  /** A reaction in any joined conversation. */
  reactionAdded: [reaction: { messageId: string; userId: string; emoji: string }, conversation: Conversation];
  /** This user is being called: call `ring.answer()` or `ring.decline()`. */
  ringing: [ring: Ring];
  /** This user was removed from a conversation, or the conversation was deleted. */
  conversationLost: [conversation: Conversation, error: StoaError];
};

/** A user's chat connection. It reconnects automatically, without losing, duplicating or reordering messages. */
export class Chat extends Emitter<ChatEvents> {
  readonly #socket: ReconnectingSocket<ChatProtocol>;
  readonly #rest: Rest;
  readonly #conversations = new Map<string, Conversation>();
  #connected: ChatConnected | null = null;
  readonly #rings: Rings;
  #presence: "online" | "away" = "online";
  /** The server's clock minus the local clock. */
  #clockOffsetMs = 0;
  #renewal: ReturnType<typeof setTimeout> | undefined;

  /** @internal Use `connectChat`. */
  constructor(
    endpoint: string,
    token: string,
    { tokenProvider, onWaiting = warnAboutWaiting, WebSocket }: ChatOptions,
  ) {
    super();
    this.#socket = new ReconnectingSocket(endpoint, token, tokenProvider, {
      onState: (state, error) => this.#stateChanged(state, error),
      onWaiting,
      WebSocket,
      greeting: "connected",
      // The server closes a refused socket only after opening it, so `connected` is the proof of success.
      establish: async (socket) => this.#resume(await socket.expect("connected"), socket),
      onConnected: () => {},
      onFrame: (push) => this.#receive(push),
      onClose: closeAction,
    });
    this.#rest = new Rest(endpoint, () => this.#socket.token);
    this.#rings = new Rings(
      this.#socket,
      () => this.userId,
      (ring) => this.emit("ringing", ring),
    );
  }

  /** The connection's state. */
  get state(): ConnectionState {
    return this.#socket.state;
  }

  /** The id of the token's user. */
  get userId(): string {
    return this.#connected?.userId ?? "";
  }

  /** The conversations joined on this connection. */
  get joined(): readonly Conversation[] {
    return [...this.#conversations.values()];
  }

  /** @internal */
  start(): Promise<void> {
    return this.#socket.start();
  }

  /** Joins a conversation by `conv_` id, uuid, RTC room id or name and loads its last `history` messages, 50 by default. */
  async join(room: string, { history = 50 }: { history?: number } = {}): Promise<Conversation> {
    const known = this.joined.find(({ record }) => [record.id, record.uuid, record.name, record.roomId].includes(room));
    if (known) return known;
    const ack = await this.#socket.call("room.join", { room });
    const joinedMeanwhile = this.#conversations.get(ack.room.id);
    if (joinedMeanwhile) return joinedMeanwhile;
    const conversation = new Conversation(ack, this.userId, this.#socket, this.#rest);
    this.#conversations.set(conversation.id, conversation);
    conversation.on("message", (message) => this.emit("message", message, conversation));
    conversation.on("reactionAdded", (reaction) => this.emit("reactionAdded", reaction, conversation));
    conversation.on("memberLeft", ({ userId }) => {
      if (userId === this.userId) this.#lose(conversation, REMOVED);
    });
    if (history > 0) await conversation.loadOlder(history);
    return conversation;
  }

  /** Stops receiving the conversation's events; the user remains a member. */
  async leave(conversation: Conversation): Promise<void> {
    this.#conversations.delete(conversation.id);
    conversation.close(new StoaError("LEFT", "closed", "The conversation was left."));
    await this.#socket.call("room.leave", { room: conversation.id });
  }

  /** Lists this user's conversations, most recent first. */
  conversations(options: { limit?: number; cursor?: string } = {}): Promise<ConversationRecord[]> {
    return this.#rest.call("GET", `/v1/chat/conversations${query(options)}`);
  }

  /** The number of unread messages, in total and by conversation. */
  unread(): Promise<Unread> {
    return this.#rest.call("GET", "/v1/chat/unread");
  }

  /** The active rings: those that this user has started and those that await this user's answer. */
  get rings(): readonly Ring[] {
    return this.#rings.active;
  }

  /** Calls members of a conversation into the call of its room; all other members by default. */
  ring(room: string, options: RingOptions = {}): Promise<Ring> {
    return this.#rings.start(room, options);
  }

  /** Blocks direct messages, mentions, rings and pushes from a user, who is not notified. */
  async block(userId: string): Promise<void> {
    await this.#rest.call("PUT", `/v1/chat/blocks/${encodeURIComponent(userId)}`);
  }

  /** Unblocks a user. */
  async unblock(userId: string): Promise<void> {
    await this.#rest.call("DELETE", `/v1/chat/blocks/${encodeURIComponent(userId)}`);
  }

  /** The ids of the users that this user has blocked, at most 200. */
  async blocked(): Promise<string[]> {
    const blocks = await this.#rest.call<{ userId: string }[]>("GET", "/v1/chat/blocks?limit=200");
    return blocks.map(({ userId }) => userId);
  }

  /** Enables push notifications in this browser. The browser asks for permission, so call it from a click handler. */
  async enablePush(worker: ServiceWorkerRegistration): Promise<void> {
    const { subscribePush } = await import("./push.ts");
    await subscribePush(this.#rest, worker);
  }

  /** Disables push notifications in this browser. */
  async disablePush(worker: ServiceWorkerRegistration): Promise<void> {
    const { unsubscribePush } = await import("./push.ts");
    await unsubscribePush(this.#rest, worker);
  }

  /** Sets which messages of a conversation cause a push notification; `mutedUntil` suppresses all until then. */
  async setNotifications(room: string, level: NotificationLevel, mutedUntil: Date | null = null): Promise<void> {
    const path = `/v1/chat/conversations/${encodeURIComponent(room)}/notifications`;
    await this.#rest.call("PUT", path, { level, mutedUntil });
  }

  /** Reports a message to the moderators. */
  async report(messageId: string, reason: ReportReason, note?: string): Promise<void> {
    await this.#rest.call("POST", `/v1/chat/messages/${encodeURIComponent(messageId)}/reports`, { reason, note });
  }

  /** Sets this user's presence status. */
  async setPresence(status: "online" | "away"): Promise<void> {
    this.#presence = status;
    await this.#socket.call("presence.set", { status });
  }

  /** Closes the connection and removes all listeners; pending messages fail. */
  close(): void {
    const closed = new StoaError("CLOSED", "closed", "The chat was closed.");
    for (const conversation of this.#conversations.values()) conversation.close(closed);
    this.#conversations.clear();
    this.#rings.close();
    this.#socket.end("DISCONNECTED", null);
    this.removeAllListeners();
  }

  async #resume(hello: ChatConnected, socket: RequestSocket<ChatProtocol>): Promise<void> {
    this.#connected = hello;
    this.#clockOffsetMs = Date.parse(hello.serverTime) - Date.now();
    await Promise.all(this.joined.map((conversation) => this.#rejoin(conversation, socket)));
    // A ring that no longer exists needs no update.
    this.#rings.resume((ringId) => this.#rest.call("GET", `/v1/chat/rings/${ringId}`)).catch(() => {});
    if (this.#presence === "away") socket.send({ type: "presence.set", status: "away" });
  }

  async #rejoin(conversation: Conversation, socket: RequestSocket<ChatProtocol>): Promise<void> {
    try {
      await conversation.resume(await socket.request("room.join", conversation.position));
    } catch (error) {
      const failure = error as StoaError;
      // Any other error is temporary, and the next attempt joins again.
      if (failure.reason !== "not-found" && failure.reason !== "not-allowed") throw failure;
      this.#lose(conversation, failure);
    }
  }

  #lose(conversation: Conversation, error: StoaError): void {
    this.#conversations.delete(conversation.id);
    this.emit("conversationLost", conversation, error);
    conversation.close(error);
  }

  /** Renews halfway to the expiry, because a token that lives less than a minute is announced as expiring at once. */
  #renewLater(expiresAt: number): void {
    clearTimeout(this.#renewal);
    const ms = Math.max(0, expiresAt - Date.now() - this.#clockOffsetMs) / 2;
    // If it fails, the server closes the socket when the token expires, and the provider is called again.
    this.#renewal = setTimeout(() => void this.#renew().catch(() => {}), ms);
  }

  async #renew(): Promise<void> {
    if (!this.#socket.tokenProvider) return;
    this.#socket.token = await this.#socket.tokenProvider();
    await this.#socket.call("token.refresh", { token: this.#socket.token });
  }

  #receive(push: ChatProtocol["push"]): void {
    switch (push.type) {
      case "connected":
        break;
      case "token.expiring":
        this.#renewLater(Date.parse(push.expiresAt));
        break;
      case "presence":
      case "typing.started":
      case "typing.stopped":
      case "read":
      case "stream.updated":
        this.#conversations.get(push.conversationId)?.signal(push);
        break;
      case "call.ringing":
      case "call.ring_updated":
        this.#rings.update(push.ring);
        break;
      default:
        this.#conversations.get(push.conversationId)?.receive(push);
    }
  }

  #stateChanged(state: ConnectionState, error: StoaError | null): void {
    clearTimeout(this.#renewal);
    this.emit("connectionStateChanged", state, error);
    if (state !== "FAILED") return;
    const failure = error ?? new StoaError("FAILED", "network", "The chat could not reconnect.");
    for (const conversation of this.#conversations.values()) conversation.close(failure);
  }
}

const TOKEN_CODES = new Set<number>([CHAT_CLOSE_CODES.unauthorized, CHAT_CLOSE_CODES.tokenExpired]);

function closeAction({ code, error }: CloseInfo): CloseAction {
  if (code === CHAT_CLOSE_CODES.forbidden) return { kind: "end", state: "FAILED", error };
  if (TOKEN_CODES.has(code)) return { kind: "renew-token", error };
  return { kind: "reconnect", afterMs: 0 };
}

const REMOVED = new StoaError("REMOVED", "removed", "You are no longer a member of this conversation.");

/** Connects the token's user to the chat; `endpoint` comes with the token. */
export async function connectChat(endpoint: string, token: string, options: ChatOptions = {}): Promise<Chat> {
  const chat = new Chat(endpoint, token, options);
  try {
    await chat.start();
    return chat;
  } catch (error) {
    chat.close();
    throw error;
  }
}
