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
import type { Rest } from "../rest.ts";
import { ConversationArchive } from "./conversation-archive.ts";
import type { ChatLink } from "./link.ts";
import { Outbox, type Outgoing } from "./outbox.ts";
import { type LocalMessage, Timeline } from "./timeline.ts";
import { TypingThrottle } from "./typing.ts";
import type { UploadOptions } from "./upload.ts";

/** One conversation, live: what it knows is what the server knows, across any reconnect. */
export class Conversation extends ConversationArchive {
  record: ConversationRecord;
  role: string;
  readState: ReadState;
  readonly #link: ChatLink;
  readonly #timeline = new Timeline();
  readonly #outbox: Outbox;
  readonly #typingThrottle: TypingThrottle;
  readonly #presence = new Map<string, Presence>();
  readonly #typing = new Map<string, Typing>();
  #seq: number;
  #epoch: string;
  #oldest: string | null | undefined;
  /** Events that arrive while history is read anew. */
  #held: ChatEvent[] | null = null;

  /** @internal */
  constructor(ack: RoomJoinAck, link: ChatLink, rest: Rest) {
    super(rest);
    this.#link = link;
    this.record = ack.room;
    this.role = ack.role;
    this.readState = ack.readState;
    this.#seq = ack.seq;
    this.#epoch = ack.epoch;
    this.#outbox = new Outbox((outgoing) => this.#deliver(outgoing));
    this.#typingThrottle = new TypingThrottle((type) => link.send({ type, room: this.id }));
    this.#adoptPresence(ack);
  }

  get name(): string {
    return this.record.name;
  }

  /** Oldest first: what was loaded, what arrived, and what is still on its way. */
  get messages(): readonly LocalMessage[] {
    return this.#timeline.messages;
  }

  get presence(): readonly Presence[] {
    return [...this.#presence.values()];
  }

  get typing(): readonly Typing[] {
    const now = Date.now();
    return [...this.#typing.values()].filter(({ expiresAt }) => Date.parse(expiresAt) > now);
  }

  /** Shown in `messages` at once; resolves when it is on the server's disk. Survives reconnects, sent exactly once. */
  send(input: string | Outgoing["input"]): Promise<Message> {
    const { pending, done } = this.#outbox.add(typeof input === "string" ? { text: input } : input, this.id);
    this.#typingThrottle.stop();
    this.#timeline.addPending(pending);
    this.emit("messagesChanged", this.messages);
    return done.catch((error: StoaError) => {
      this.#timeline.markPending(pending.clientMessageId ?? "", "failed");
      this.emit("messagesChanged", this.messages);
      throw error;
    });
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

  discard(message: LocalMessage): void {
    this.#timeline.dropPending(message.clientMessageId);
    this.emit("messagesChanged", this.messages);
  }

  async sendFile(file: Blob, options: UploadOptions & { text?: string } = {}): Promise<Message> {
    const attachment = await this.upload(file, options);
    return this.send({ text: options.text, attachment });
  }

  edit(messageId: string, change: { text?: string; metadata?: Metadata }): Promise<void> {
    return this.#link.request("message.update", { messageId, ...change });
  }

  delete(messageId: string): Promise<void> {
    return this.#link.request("message.delete", { messageId });
  }

  react(messageId: string, emoji: string): Promise<void> {
    return this.#link.request("reaction.add", { messageId, emoji });
  }

  unreact(messageId: string, emoji: string): Promise<void> {
    return this.#link.request("reaction.remove", { messageId, emoji });
  }

  async markRead(messageId = this.messages.findLast(({ status }) => status === "sent")?.id): Promise<void> {
    if (messageId === undefined) return;
    const { readState } = await this.#link.request<{ readState: ReadState }>("read.mark", { messageId });
    this.readState = readState;
  }

  /** Call it on every key stroke: at most one frame in three seconds leaves, and it stops by itself. */
  startTyping(): void {
    this.#typingThrottle.start();
  }

  stopTyping(): void {
    this.#typingThrottle.stop();
  }

  /** The page of messages before those already known; false when there are no more. */
  async loadOlder(limit = 50): Promise<boolean> {
    if (this.#oldest === null) return false;
    const page = await this.history({ before: this.#oldest, limit });
    for (const message of page.data) this.#timeline.put(message);
    this.#oldest = page.nextCursor;
    this.emit("messagesChanged", this.messages);
    return page.nextCursor !== null;
  }

  /** @internal What a rejoin needs to say. */
  get position(): { room: string; since: number; epoch: string } {
    return { room: this.id, since: this.#seq, epoch: this.#epoch };
  }

  /** @internal After a reconnect: what was missed, in order; then what is still waiting to be sent. */
  async resume(ack: RoomJoinAck): Promise<void> {
    this.record = ack.room;
    this.role = ack.role;
    this.readState = ack.readState;
    this.#adoptPresence(ack);
    for (const event of ack.events) this.receive(event);
    if (!ack.recovered) await this.#readAnew(ack);
    this.#outbox.resend();
  }

  /** @internal */
  receive(event: ChatEvent): void {
    if (this.#held) {
      this.#held.push(event);
      return;
    }
    if (event.seq <= this.#seq) return;
    this.#seq = event.seq;
    this.#timeline.apply(event);
    this.#announce(event);
    this.emit("messagesChanged", this.messages);
  }

  /** @internal */
  signal(signal: ChatSignal): void {
    switch (signal.type) {
      case "presence": {
        const presence = signal as unknown as Presence;
        if (signal.status === "offline") this.#presence.delete(signal.userId);
        else this.#presence.set(signal.userId, presence);
        this.emit("presenceChanged", presence);
        break;
      }
      case "typing.started":
        this.#typing.set(signal.userId, signal);
        this.emit("typingChanged", this.typing);
        break;
      case "typing.stopped":
        this.#typing.delete(signal.userId);
        this.emit("typingChanged", this.typing);
        break;
      case "read":
        this.emit("read", signal);
        break;
      case "stream.updated":
        this.emit("streamUpdated", signal);
        break;
    }
  }

  /** @internal */
  close(error: StoaError): void {
    this.#typingThrottle.close();
    this.#outbox.fail(error);
    this.removeAllListeners();
  }

  async #deliver({ input, clientMessageId, clientSentAt }: Outgoing): Promise<Message> {
    const { attachment, ...fields } = input;
    const { message } = await this.#link.request<{ message: Message }>("message.send", {
      room: this.id,
      ...fields,
      ...(attachment === undefined ? {} : { messageType: "attachment", attachmentId: attachment.id }),
      clientMessageId,
      clientSentAt,
    });
    return message;
  }

  async #readAnew({ seq, epoch }: RoomJoinAck): Promise<void> {
    this.#seq = seq;
    // No epoch yet: should this be cut short, the next join must not take the gap for recovered.
    this.#epoch = "";
    this.#held = [];
    try {
      const page = await this.history({ limit: 50 });
      this.#timeline.reset(page.data);
      this.#oldest = page.nextCursor;
      this.#epoch = epoch;
    } finally {
      const held = this.#held;
      this.#held = null;
      for (const event of held) this.receive(event);
    }
    this.emit("reset");
    this.emit("messagesChanged", this.messages);
  }

  #adoptPresence({ presence, typing }: RoomJoinAck): void {
    this.#presence.clear();
    for (const one of presence) this.#presence.set(one.userId, one);
    this.#typing.clear();
    for (const one of typing) this.#typing.set(one.userId, one);
  }

  #announce(event: ChatEvent): void {
    switch (event.type) {
      case "message":
        this.emit("message", this.#timeline.put(event.message));
        break;
      case "message.updated":
        this.emit("messageUpdated", { ...event.message, status: "sent" });
        break;
      case "message.deleted":
        this.emit("messageDeleted", { id: event.messageId, deletedBy: event.deletedBy });
        break;
      case "reaction.added":
        this.emit("reactionAdded", event);
        break;
      case "reaction.removed":
        this.emit("reactionRemoved", event);
        break;
      case "member.joined":
        this.emit("memberJoined", event.member);
        break;
      case "member.left":
        this.emit("memberLeft", event.member);
        break;
      case "member.updated":
        this.emit("memberUpdated", event.member);
        break;
      case "conversation.updated":
        this.record = event.conversation;
        this.emit("conversationUpdated", event.conversation);
        break;
    }
  }
}
