import type { ChatConnected } from "../../../src/protocol/chat.ts";
import type {
  Conversation as ConversationRecord,
  NotificationLevel,
  ReportReason,
  Unread,
} from "../../../src/protocol/chat-records.ts";
import { type ConnectionState, type TokenProvider, type WaitingListener, warnAboutWaiting } from "../connection-state.ts";
import type { ChatProtocol } from "../protocol.ts";
import { Emitter } from "../emitter.ts";
import { StoaError } from "../errors.ts";
import type { ReconnectingSocket } from "../reconnecting-socket.ts";
import { query, Rest } from "../rest.ts";
import type { RequestSocket } from "../request-socket.ts";
import { Conversation } from "./conversation.ts";
import { type ChatPush, chatLink } from "./link.ts";
import { subscribePush, unsubscribePush } from "./push.ts";
import { type Ring, type RingOptions, Rings } from "./ring.ts";
import type { LocalMessage } from "./timeline.ts";

/** For `connectChat`. */
export type ChatOptions = {
  /** Without one, the chat ends with the token. */
  tokenProvider?: TokenProvider;
  /** The server was asked too often and the first connection waits. */
  onWaiting?: WaitingListener;
  /** Where the runtime has none of its own, as Node 20: that of `stoa/participant`. */
  WebSocket?: typeof WebSocket;
};

/** What a chat tells of, by name; listen with `chat.on(name, …)`. */
export type ChatEvents = {
  /** `error` says why, unless all is well. */
  connectionStateChanged: [state: ConnectionState, error: StoaError | null];
  /** In any joined conversation; each conversation emits its own as well. */
  message: [message: LocalMessage, conversation: Conversation];
  /** In any joined conversation. */
  reactionAdded: [reaction: { messageId: string; userId: string; emoji: string }, conversation: Conversation];
  /** Somebody rings this user; `ring.answer()` or `ring.decline()`. */
  ringing: [ring: Ring];
  /** Removed from a conversation, or it is gone. */
  conversationLost: [conversation: Conversation, error: StoaError];
};

/** A user's connection to the chat. It comes back by itself; nothing is lost, doubled or out of order. */
export class Chat extends Emitter<ChatEvents> {
  readonly #socket: ReconnectingSocket<ChatProtocol>;
  readonly #rest: Rest;
  readonly #conversations = new Map<string, Conversation>();
  #connected: ChatConnected | null = null;
  readonly #rings: Rings;
  #presence: "online" | "away" = "online";
  /** By how much the server's clock is ahead of this one. */
  #clockOffsetMs = 0;
  #renewal: ReturnType<typeof setTimeout> | undefined;

  /** @internal Use `connectChat`. */
  constructor(endpoint: string, token: string, { tokenProvider, onWaiting = warnAboutWaiting, WebSocket }: ChatOptions) {
    super();
    this.#socket = chatLink(endpoint, token, tokenProvider, {
      onState: (state, error) => this.#stateChanged(state, error),
      onWaiting,
      WebSocket,
      onFrame: (push) => this.#receive(push),
      onHello: (hello, wire) => this.#resume(hello, wire),
    });
    this.#rest = new Rest(endpoint, () => this.#socket.token);
    this.#rings = new Rings(
      this.#socket,
      () => this.userId,
      (ring) => this.emit("ringing", ring),
    );
  }

  /** Whether the server is in reach. */
  get state(): ConnectionState {
    return this.#socket.state;
  }

  /** Whom the token was minted for. */
  get userId(): string {
    return this.#connected?.userId ?? "";
  }

  /** Conversations joined on this connection. */
  get joined(): readonly Conversation[] {
    return [...this.#conversations.values()];
  }

  /** @internal */
  start(): Promise<void> {
    return this.#socket.start();
  }

  /** By `conv_` id, uuid, RTC room id or name. `history` messages are loaded at once; 0 loads none. */
  async join(room: string, { history = 50 }: { history?: number } = {}): Promise<Conversation> {
    const known = this.joined.find(({ record }) => [record.id, record.uuid, record.name, record.roomId].includes(room));
    if (known) return known;
    const ack = await this.#socket.call("room.join", { room });
    const twin = this.#conversations.get(ack.room.id);
    if (twin) return twin;
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

  /** Hears nothing more of it; membership stays. */
  async leave(conversation: Conversation): Promise<void> {
    this.#conversations.delete(conversation.id);
    conversation.close(new StoaError("LEFT", "closed", "The conversation was left."));
    await this.#socket.call("room.leave", { room: conversation.id });
  }

  /** Every conversation of this user, most recent first. */
  conversations(options: { limit?: number; cursor?: string } = {}): Promise<ConversationRecord[]> {
    return this.#rest.call("GET", `/v1/chat/conversations${query(options)}`);
  }

  /** How much is unread, in all and in each conversation. */
  unread(): Promise<Unread> {
    return this.#rest.call("GET", "/v1/chat/unread");
  }

  /** Rings that go on: those of this user, and those that wait for their answer. */
  get rings(): readonly Ring[] {
    return this.#rings.open;
  }

  /** Rings members of a conversation that is attached to a room into its call; everybody else unless named. */
  ring(room: string, options: RingOptions = {}): Promise<Ring> {
    return this.#rings.start(room, options);
  }

  /** Takes no more direct messages, mentions, rings and pushes from this user; they are not told. */
  async block(userId: string): Promise<void> {
    await this.#rest.call("PUT", `/v1/chat/blocks/${encodeURIComponent(userId)}`);
  }

  /** Takes it back. */
  async unblock(userId: string): Promise<void> {
    await this.#rest.call("DELETE", `/v1/chat/blocks/${encodeURIComponent(userId)}`);
  }

  /** User ids that this user has blocked, at most 200. */
  async blocked(): Promise<string[]> {
    const blocks = await this.#rest.call<{ userId: string }[]>("GET", "/v1/chat/blocks?limit=200");
    return blocks.map(({ userId }) => userId);
  }

  /** Has this browser woken when no socket of the user is open. It asks for permission: call it from a click. */
  async enablePush(worker: ServiceWorkerRegistration): Promise<void> {
    await subscribePush(this.#rest, worker);
  }

  /** Takes it back, for this browser. */
  async disablePush(worker: ServiceWorkerRegistration): Promise<void> {
    await unsubscribePush(this.#rest, worker);
  }

  /** What this user is woken for in a conversation; `mutedUntil` silences it for a while. */
  async setNotifications(room: string, level: NotificationLevel, mutedUntil: Date | null = null): Promise<void> {
    const path = `/v1/chat/conversations/${encodeURIComponent(room)}/notifications`;
    await this.#rest.call("PUT", path, { level, mutedUntil });
  }

  /** Brings a message before the moderators. */
  async report(messageId: string, reason: ReportReason, note?: string): Promise<void> {
    await this.#rest.call("POST", `/v1/chat/messages/${encodeURIComponent(messageId)}/reports`, { reason, note });
  }

  /** How the others see this user. */
  async setPresence(status: "online" | "away"): Promise<void> {
    this.#presence = status;
    await this.#socket.call("presence.set", { status });
  }

  /** Ends the connection and forgets every listener; what was not sent fails. */
  close(): void {
    const closed = new StoaError("CLOSED", "closed", "The chat was closed.");
    for (const conversation of this.#conversations.values()) conversation.close(closed);
    this.#conversations.clear();
    this.#rings.close();
    this.#socket.end("DISCONNECTED", null);
    this.removeAllListeners();
  }

  async #resume(hello: ChatConnected, wire: RequestSocket<ChatProtocol>): Promise<void> {
    this.#connected = hello;
    this.#clockOffsetMs = Date.parse(hello.serverTime) - Date.now();
    await Promise.all(this.joined.map((conversation) => this.#rejoin(conversation, wire)));
    // A ring that is gone by now has nothing more to say.
    this.#rings.resume((ringId) => this.#rest.call("GET", `/v1/chat/rings/${ringId}`)).catch(() => {});
    if (this.#presence === "away") wire.send({ type: "presence.set", status: "away" });
  }

  async #rejoin(conversation: Conversation, wire: RequestSocket<ChatProtocol>): Promise<void> {
    try {
      await conversation.resume(await wire.request("room.join", conversation.position));
    } catch (error) {
      const failure = error as StoaError;
      // Anything else than "not for you any more" is cured by the next attempt.
      if (failure.reason !== "not-found" && failure.reason !== "not-allowed") throw failure;
      this.#lose(conversation, failure);
    }
  }

  #lose(conversation: Conversation, error: StoaError): void {
    this.#conversations.delete(conversation.id);
    this.emit("conversationLost", conversation, error);
    conversation.close(error);
  }

  /** Halfway to its end: a token that lives less than a minute is announced as expiring as soon as it is there. */
  #renewLater(expiresAt: number): void {
    clearTimeout(this.#renewal);
    const ms = Math.max(0, expiresAt - Date.now() - this.#clockOffsetMs) / 2;
    // Should it fail, the socket is closed when the token is over, and the provider is asked again.
    this.#renewal = setTimeout(() => void this.#renew().catch(() => {}), ms);
  }

  async #renew(): Promise<void> {
    if (!this.#socket.tokenProvider) return;
    this.#socket.token = await this.#socket.tokenProvider();
    await this.#socket.call("token.refresh", { token: this.#socket.token });
  }

  #receive(push: ChatPush): void {
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
    const failure = error ?? new StoaError("FAILED", "network", "The chat could not be reached again.");
    for (const conversation of this.#conversations.values()) conversation.close(failure);
  }
}

const REMOVED = new StoaError("REMOVED", "removed", "You are no longer a member of this conversation.");

/** Opens the chat of the user that the token was minted for; `endpoint` comes with the token. */
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
