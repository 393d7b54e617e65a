import type { ChatEvent } from "../../../src/protocol/chat-events.ts";
import type { Message } from "../../../src/protocol/chat-records.ts";

/** A message as the page shows it: `status` tells whether the server has it yet. */
export type LocalMessage = Message & { status: "sending" | "sent" | "failed" };

/** What is known of a conversation's messages: oldest first, those still being sent at the end. */
export class Timeline {
  #sent: LocalMessage[] = [];
  #pending: LocalMessage[] = [];
  /** The list as last read: the same object until something changes, which is what React compares by. */
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

  /** Sends that fail stay where they are, to be tried again or thrown away. */
  markFailed(clientMessageId: string): void {
    this.#pending = this.#pending.map((message) =>
      message.clientMessageId === clientMessageId ? { ...message, status: "failed" } : message,
    );
    this.#snapshot = null;
  }

  /** Adds or replaces; the order is that of `seq`, whichever way a message arrived. */
  put(message: Message): LocalMessage {
    this.#snapshot = null;
    const shown: LocalMessage = { ...message, status: "sent" };
    const known = this.#sent.findIndex(({ id }) => id === message.id);
    if (known >= 0) {
      this.#sent[known] = shown;
      return shown;
    }
    let at = this.#sent.length;
    while (at > 0 && (this.#sent[at - 1]?.seq ?? 0) > message.seq) at -= 1;
    this.#sent.splice(at, 0, shown);
    if (message.clientMessageId !== null) this.dropPending(message.clientMessageId);
    return shown;
  }

  /** Events state results, so applying one again changes nothing. */
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
        this.#change(event.messageId, { ...GONE, deletedAt: event.deletedAt });
        if (event.thread) this.#change(event.thread.rootId, { replyCount: event.thread.replyCount });
        return;
      case "reaction.added":
      case "reaction.removed":
        this.#change(event.messageId, { reactions: event.reactions });
        return;
    }
  }

  /** Too much was missed: forget what is known of the past, keep what still waits to be sent. */
  reset(messages: Message[]): void {
    this.#sent = [];
    this.#snapshot = null;
    for (const message of messages) this.put(message);
  }

  /** A new object each time, so that a page that compares by identity sees what has changed. */
  #change(messageId: string, change: Partial<Message>): void {
    const at = this.#sent.findIndex(({ id }) => id === messageId);
    const known = this.#sent[at];
    if (!known) return;
    this.#sent[at] = { ...known, ...change };
    this.#snapshot = null;
  }
}

const GONE = { deleted: true, text: null, metadata: null, attachment: null, reactions: [] };
