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
import type { ChatProtocol } from "../protocol.ts";
import type { StoaError } from "../errors.ts";
import type { ReconnectingSocket } from "../reconnecting-socket.ts";
import type { Rest } from "../rest.ts";
import { ConversationArchive } from "./conversation-archive.ts";
import { emitEvent } from "./conversation-events.ts";
import { Outbox, type Outgoing, pendingMessage, type SendInput } from "./outbox.ts";
import { PresenceAndTyping } from "./presence-and-typing.ts";
import { type LocalMessage, Timeline } from "./timeline.ts";
import { TypingThrottle } from "./typing.ts";
import type { UploadOptions } from "./upload.ts";

/** One conversation, live: what it knows is what the server knows, across any reconnect. */
export class Conversation extends ConversationArchive {
  /** As the server has it. */
  record: ConversationRecord;
  /** Of this user. */
  role: string;
  /** How far this user has read. */
  readState: ReadState;
  readonly #socket: ReconnectingSocket<ChatProtocol>;
  readonly #userId: string;
  readonly #timeline = new Timeline();
  readonly #outbox: Outbox;
  readonly #typingThrottle: TypingThrottle;
  readonly #others: PresenceAndTyping;
  #seq: number;
  #epoch: string;
  /** Where the page before the known ones begins; undefined before the first, null after the last. */
  #older: string | null | undefined;
  /** Events since the page of history that is being read was asked for. */
  #eventsSinceRequest: ChatEvent[] | null = null;

  /** @internal */
  constructor(ack: RoomJoinAck, userId: string, link: ReconnectingSocket<ChatProtocol>, rest: Rest) {
    super(rest);
    this.#socket = link;
    this.#userId = userId;
    this.record = ack.room;
    this.role = ack.role;
    this.readState = ack.readState;
    this.#seq = ack.seq;
    this.#epoch = ack.epoch;
    this.#outbox = new Outbox((outgoing) => this.#deliver(outgoing));
    this.#typingThrottle = new TypingThrottle((type) => link.send({ type, room: this.id }));
    this.#others = new PresenceAndTyping(this, userId);
    this.#others.adopt(ack);
  }

  /** As it was created. */
  get name(): string {
    return this.record.name;
  }

  /** Oldest first: what was loaded, what arrived, and what is still on its way. */
  get messages(): readonly LocalMessage[] {
    return this.#timeline.messages;
  }

  /** Whether `loadOlder` has anything left to load. */
  get hasOlder(): boolean {
    return this.#older !== null;
  }

  /** Who is here now. */
  get presence(): readonly Presence[] {
    return this.#others.present;
  }

  /** The others who are typing. */
  get typing(): readonly Typing[] {
    return this.#others.typing;
  }

  /** Shown in `messages` at once; resolves when it is on the server's disk. Survives reconnects, sent exactly once. */
  async send(input: string | SendInput): Promise<Message> {
    this.#typingThrottle.stop();
    const { outgoing, done } = this.#outbox.add(typeof input === "string" ? { text: input } : input);
    this.#timeline.addPending(pendingMessage(outgoing, { conversationId: this.id, senderId: this.#userId }));
    this.#changed();
    try {
      const message = await done;
      // Usually its event has come before the answer; after a reconnect it may not.
      if (!this.#timeline.find(message.id)) this.#timeline.put(message);
      return message;
    } catch (error) {
      this.#timeline.markFailed(outgoing.clientMessageId);
      throw error;
    } finally {
      this.#changed();
    }
  }

  /** Sends a failed message again, under the same id. */
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

  /** Throws a failed message away. */
  discard(message: LocalMessage): void {
    this.#timeline.dropPending(message.clientMessageId);
    this.#changed();
  }

  /** Uploads the file and sends it as a message, with `text` if given. */
  async sendFile(file: Blob, options: UploadOptions & { text?: string } = {}): Promise<Message> {
    const attachment = await this.upload(file, options);
    return this.send({ text: options.text, attachment });
  }

  /** Changes a message of one's own. */
  async edit(messageId: string, change: { text?: string; metadata?: Metadata }): Promise<void> {
    await this.#socket.call("message.update", { messageId, ...change });
  }

  /** Deletes it for everyone; others' messages need the scope `chat:moderate`. */
  async delete(messageId: string): Promise<void> {
    await this.#socket.call("message.delete", { messageId });
  }

  /** Adds this user's reaction. */
  async react(messageId: string, emoji: string): Promise<void> {
    await this.#socket.call("reaction.add", { messageId, emoji });
  }

  /** Takes it back. */
  async unreact(messageId: string, emoji: string): Promise<void> {
    await this.#socket.call("reaction.remove", { messageId, emoji });
  }

  /** This message and everything before it; the newest unless given. */
  async markRead(messageId = this.messages.findLast(({ status }) => status === "sent")?.id): Promise<void> {
    if (messageId === undefined) return;
    this.readState = (await this.#socket.call("read.mark", { messageId })).readState;
  }

  /** Call it on every key stroke: at most one frame in three seconds leaves, and it stops by itself. */
  startTyping(): void {
    this.#typingThrottle.start();
  }

  /** Sooner than by itself. */
  stopTyping(): void {
    this.#typingThrottle.stop();
  }

  /** The page of messages before those already known; false when there are no more. */
  async loadOlder(limit = 50): Promise<boolean> {
    if (this.#older === null) return false;
    await this.#read({ before: this.#older, limit }, (messages) => {
      for (const message of messages) if (!this.#timeline.find(message.id)) this.#timeline.put(message);
    });
    return this.hasOlder;
  }

  /** @internal What a rejoin needs to say. */
  get position(): { room: string; since: number; epoch: string } {
    return { room: this.id, since: this.#seq, epoch: this.#epoch };
  }

  /** @internal After a reconnect: what was missed, in order. */
  async resume(ack: RoomJoinAck): Promise<void> {
    for (const event of ack.events) this.receive(event);
    this.record = ack.room;
    this.role = ack.role;
    this.readState = ack.readState;
    this.#others.adopt(ack);
    if (ack.recovered) return;
    this.#seq = ack.seq;
    // No epoch yet: should this be cut short, the next join must not take the gap for recovered.
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

  /** Reads a page. What happened while it was on its way is newer than it may be, and is applied again on top. */
  async #read(options: { before?: string; limit: number }, merge: (messages: Message[]) => void): Promise<void> {
    const meanwhile: ChatEvent[] = [];
    this.#eventsSinceRequest = meanwhile;
    try {
      const page = await this.history(options);
      merge(page.data);
      this.#older = page.nextCursor;
    } finally {
      if (this.#eventsSinceRequest === meanwhile) this.#eventsSinceRequest = null;
    }
    for (const event of meanwhile) this.#timeline.apply(event);
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
