import type { ChatEvent } from "../../../src/protocol/chat-events.ts";
import type { Message } from "../../../src/protocol/chat-records.ts";

/** A message with its delivery status: `sent` once the server has stored it. */
export type LocalMessage = Message & { status: "sending" | "sent" | "failed" };

/** The known messages of a conversation, oldest first, with the pending ones at the end. */
export class Timeline {
  #sent: LocalMessage[] = [];
  #pending: LocalMessage[] = [];
  /** The same array until something changes, because React compares by identity. */
  #snapshot: readonly LocalMessage[] | null = null;

  get messages(): readonly LocalMessage[] {
    this.#snapshot ??= [...this.#sent, ...this.#pending];
    return this.#snapshot;
  }

  find(messageId: string): LocalMessage | undefined {
    return this.#sent.find((message) => message.id === messageId);
  }

  addPending(message: LocalMessage): void {
    this.#pending.push(message);
    this.#snapshot = null;
  }

  dropPending(clientMessageId: string | null): void {
    this.#pending = this.#pending.filter((message) => message.clientMessageId !== clientMessageId);
    this.#snapshot = null;
  }

  /** A failed message stays in the list until it is retried or discarded. */
  markFailed(clientMessageId: string): void {
    this.#pending = this.#pending.map((message) =>
      message.clientMessageId === clientMessageId ? { ...message, status: "failed" } : message,
    );
    this.#snapshot = null;
  }

  /** Adds or replaces a message; the list is ordered by `seq`. */
  put(message: Message): LocalMessage {
    this.#snapshot = null;
    const local: LocalMessage = { ...message, status: "sent" };
    const known = this.#sent.findIndex(({ id }) => id === message.id);
    if (known >= 0) {
      this.#sent[known] = local;
      return local;
    }
    let at = this.#sent.length;
    while (at > 0 && (this.#sent[at - 1]?.seq ?? 0) > message.seq) at -= 1;
    this.#sent.splice(at, 0, local);
    if (message.clientMessageId !== null) this.dropPending(message.clientMessageId);
    return local;
  }

  /** Events are idempotent: applying one twice changes nothing. */
  apply(event: ChatEvent): void {
    switch (event.type) {
      case "message":
        this.put(event.message);
        if (event.thread) this.#change(event.thread.rootId, { replyCount: event.thread.replyCount });
        return;
      case "message.updated":
        if (this.find(event.message.id)) this.put(event.message);
        return;
      case "message.deleted":
        this.#change(event.messageId, { ...DELETED, deletedAt: event.deletedAt });
        if (event.thread) this.#change(event.thread.rootId, { replyCount: event.thread.replyCount });
        return;
      case "reaction.added":
      case "reaction.removed":
        this.#change(event.messageId, { reactions: event.reactions });
        return;
    }
  }

  /** Replaces the sent messages and keeps the pending ones. */
  reset(messages: Message[]): void {
    this.#sent = [];
    this.#snapshot = null;
    for (const message of messages) this.put(message);
  }

  /** Replaces the object, so that a page that compares by identity notices the change. */
  #change(messageId: string, change: Partial<Message>): void {
    const at = this.#sent.findIndex(({ id }) => id === messageId);
    const known = this.#sent[at];
    if (!known) return;
    this.#sent[at] = { ...known, ...change };
    this.#snapshot = null;
  }
}

const DELETED = { deleted: true, text: null, metadata: null, attachment: null, reactions: [] };
