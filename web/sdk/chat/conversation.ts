import type { ChatSignal, RoomJoinAck } from "../../../src/protocol/chat.ts";
import type { ChatEvent } from "../../../src/protocol/chat-events.ts";
import type {
  Conversation as ConversationRecord,
  Message,
  Metadata,
  Presence,
  ReadState,
  Typing,
} from "../../../src/protocol/chat-records.ts";
import type { StoaError } from "../errors.ts";
import type { ChatProtocol } from "../protocol.ts";
import type { ReconnectingSocket } from "../reconnecting-socket.ts";
import type { Rest } from "../rest.ts";
import { ConversationArchive } from "./conversation-archive.ts";
import { emitEvent } from "./conversation-events.ts";
import { Outbox, type Outgoing, pendingMessage, type SendInput } from "./outbox.ts";
import { PresenceAndTyping, TypingThrottle } from "./presence-and-typing.ts";
import { type LocalMessage, Timeline } from "./timeline.ts";
import type { UploadOptions } from "./upload.ts";

/** A joined conversation. Its state follows the server's, even across reconnections. */
export class Conversation extends ConversationArchive {
  /** The conversation's record. */
  record: ConversationRecord;
  /** This user's role. */
  role: string;
  /** This user's read state. */
  readState: ReadState;
  readonly #socket: ReconnectingSocket<ChatProtocol>;
  readonly #userId: string;
  readonly #timeline = new Timeline();
  readonly #outbox: Outbox;
  readonly #typingThrottle: TypingThrottle;
  readonly #others: PresenceAndTyping;
  #seq: number;
  #epoch: string;
  /** The cursor of the next older page; undefined before the first page is loaded, null after the oldest. */
  #older: string | null | undefined;
  /** Events received since the current page of history was requested. */
  #eventsSinceRequest: ChatEvent[] | null = null;

  /** @internal */
  constructor(ack: RoomJoinAck, userId: string, socket: ReconnectingSocket<ChatProtocol>, rest: Rest) {
    super(rest);
    this.#socket = socket;
    this.#userId = userId;
    this.record = ack.room;
    this.role = ack.role;
    this.readState = ack.readState;
    this.#seq = ack.seq;
    this.#epoch = ack.epoch;
    this.#outbox = new Outbox((outgoing) => this.#deliver(outgoing));
    this.#typingThrottle = new TypingThrottle((type) => socket.send({ type, room: this.id }));
    this.#others = new PresenceAndTyping(this, userId);
    this.#others.replace(ack);
  }

  /** The conversation's name. */
  get name(): string {
    return this.record.name;
  }

  /** The loaded, received and pending messages, oldest first. */
  get messages(): readonly LocalMessage[] {
    return this.#timeline.messages;
  }

  /** Whether older messages can be loaded with `loadOlder`. */
  get hasOlder(): boolean {
    return this.#older !== null;
  }

  /** The members who are online now. */
  get presence(): readonly Presence[] {
    return this.#others.present;
  }

  /** The other members who are typing. */
  get typing(): readonly Typing[] {
    return this.#others.typing;
  }

  /** Adds a message to `messages` at once and sends it exactly once; resolves when the server has stored it. */
  async send(input: string | SendInput): Promise<Message> {
    this.#typingThrottle.stop();
    const { outgoing, done } = this.#outbox.add(typeof input === "string" ? { text: input } : input);
    const senderId = this.#userId;
    const senderName = this.messages.findLast((message) => message.senderId === senderId)?.senderName ?? senderId;
    this.#timeline.addPending(pendingMessage(outgoing, { conversationId: this.id, senderId, senderName }));
    this.#changed();
    try {
      const message = await done;
      // The message's event usually arrives before the acknowledgement, but may not after a reconnection.
      if (!this.#timeline.find(message.id)) this.#timeline.put(message);
      return message;
    } catch (error) {
      this.#timeline.markFailed(outgoing.clientMessageId);
      throw error;
    } finally {
      this.#changed();
    }
  }

  /** Sends a failed message again with the same client id. */
  retry(message: LocalMessage): Promise<Message> {
    const { clientMessageId, text, metadata, replyTo, attachment } = message;
    this.#timeline.dropPending(clientMessageId);
    return this.send({
      text: text ?? undefined,
      metadata: metadata ?? undefined,
      replyTo: replyTo ?? undefined,
      attachment: attachment ?? undefined,
      clientMessageId: clientMessageId ?? undefined,
    });
  }

  /** Removes a failed message. */
  discard(message: LocalMessage): void {
    this.#timeline.dropPending(message.clientMessageId);
    this.#changed();
  }

  /** Uploads a file and sends it as a message. */
  async sendFile(file: Blob, options: UploadOptions & { text?: string } = {}): Promise<Message> {
    const attachment = await this.upload(file, options);
    return this.send({ text: options.text, attachment });
  }

  /** Edits one of this user's messages. */
  async edit(messageId: string, change: { text?: string; metadata?: Metadata }): Promise<void> {
    await this.#socket.call("message.update", { messageId, ...change });
  }

  /** Deletes a message for all members; messages of other users need the scope `chat:moderate`. */
  async delete(messageId: string): Promise<void> {
    await this.#socket.call("message.delete", { messageId });
  }

  /** Adds this user's reaction. */
  async react(messageId: string, emoji: string): Promise<void> {
    await this.#socket.call("reaction.add", { messageId, emoji });
  }

  /** Removes this user's reaction. */
  async unreact(messageId: string, emoji: string): Promise<void> {
    await this.#socket.call("reaction.remove", { messageId, emoji });
  }

  /** Marks a message and all earlier ones as read; the newest by default. */
  async markRead(messageId = this.messages.findLast(({ status }) => status === "sent")?.id): Promise<void> {
    if (messageId === undefined) return;
    this.readState = (await this.#socket.call("read.mark", { messageId })).readState;
  }

  /** Shows this user as typing. Call it on every keystroke: it is throttled and expires by itself. */
  startTyping(): void {
    this.#typingThrottle.start();
  }

  /** Stops showing this user as typing before it expires. */
  stopTyping(): void {
    this.#typingThrottle.stop();
  }

  /** Loads the next page of older messages; resolves with false when there are no more. */
  async loadOlder(limit = 50): Promise<boolean> {
    if (this.#older === null) return false;
    await this.#read({ before: this.#older, limit }, (messages) => {
      for (const message of messages) if (!this.#timeline.find(message.id)) this.#timeline.put(message);
    });
    return this.hasOlder;
  }

  /** @internal The fields of a rejoin. */
  get position(): { room: string; since: number; epoch: string } {
    return { room: this.id, since: this.#seq, epoch: this.#epoch };
  }

  /** @internal Applies the events that were missed during a disconnection. */
  async resume(ack: RoomJoinAck): Promise<void> {
    for (const event of ack.events) this.receive(event);
    this.record = ack.room;
    this.role = ack.role;
    this.readState = ack.readState;
    this.#others.replace(ack);
    if (ack.recovered) return;
    this.#seq = ack.seq;
    // If this load is interrupted, the empty epoch keeps the next join from treating the gap as recovered.
    this.#epoch = "";
    await this.#read({ limit: 50 }, (messages) => this.#timeline.reset(messages));
    this.#epoch = ack.epoch;
    this.emit("reset");
  }

  /** @internal */
  receive(event: ChatEvent): void {
    if (event.seq <= this.#seq) return;
    this.#seq = event.seq;
    this.#eventsSinceRequest?.push(event);
    this.#timeline.apply(event);
    if (event.type === "conversation.updated") this.record = event.conversation;
    if (event.type === "message" && event.message.senderId !== this.#userId) this.readState.unreadCount += 1;
    emitEvent(this, event, this.#timeline);
    this.#changed();
  }

  /** @internal */
  signal(signal: ChatSignal): void {
    if (signal.type === "stream.updated") this.emit("streamUpdated", signal);
    else this.#others.signal(signal);
  }

  /** @internal */
  close(error: StoaError): void {
    this.#typingThrottle.close();
    this.#outbox.fail(error);
    this.#changed();
    this.removeAllListeners();
  }

  /** Loads a page. Events that arrive meanwhile may be newer than the page, so they are applied again on top of it. */
  async #read(options: { before?: string; limit: number }, merge: (messages: Message[]) => void): Promise<void> {
    const eventsSinceRequest: ChatEvent[] = [];
    this.#eventsSinceRequest = eventsSinceRequest;
    try {
      const page = await this.history(options);
      merge(page.data);
      this.#older = page.nextCursor;
    } finally {
      if (this.#eventsSinceRequest === eventsSinceRequest) this.#eventsSinceRequest = null;
    }
    for (const event of eventsSinceRequest) this.#timeline.apply(event);
    this.#changed();
  }

  async #deliver({ input, clientMessageId, clientSentAt }: Outgoing): Promise<Message> {
    const { attachment, ...fields } = input;
    const { message } = await this.#socket.call("message.send", {
      room: this.id,
      ...fields,
      ...(attachment === undefined ? {} : { messageType: "attachment", attachmentId: attachment.id }),
      clientMessageId,
      clientSentAt,
    });
    return message;
  }

  #changed(): void {
    this.emit("messagesChanged", this.messages);
  }
}
