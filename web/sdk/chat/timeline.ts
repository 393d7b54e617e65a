import type { ChatEvent } from "../../../src/protocol/chat-events.ts";
import type { Message } from "../../../src/protocol/chat-records.ts";

/** A message as the page shows it: `status` tells whether the server has it yet. */
export type LocalMessage = Message & { status: "sending" | "sent" | "failed" };

/** What is known of a conversation's messages: oldest first, those still being sent at the end. */
export class Timeline {
  #sent: LocalMessage[] = [];
  #pending: LocalMessage[] = [];

  get messages(): readonly LocalMessage[] {
    return [...this.#sent, ...this.#pending];
  }

  find(messageId: string): LocalMessage | undefined {
    return this.#sent.find((message) => message.id === messageId);
  }

  addPending(message: LocalMessage): void {
    this.#pending.push(message);
  }

  dropPending(clientMessageId: string | null): void {
    this.#pending = this.#pending.filter((message) => message.clientMessageId !== clientMessageId);
  }

  markPending(clientMessageId: string, status: "sending" | "failed"): void {
    const message = this.#pending.find((candidate) => candidate.clientMessageId === clientMessageId);
    if (message) message.status = status;
  }

  /** Adds or replaces; the order is that of `seq`, whichever way a message arrived. */
  put(message: Message): LocalMessage {
    const known = this.find(message.id);
    if (known) return Object.assign(known, message);
    const added: LocalMessage = { ...message, status: "sent" };
    let at = this.#sent.length;
    while (at > 0 && (this.#sent[at - 1]?.seq ?? 0) > message.seq) at -= 1;
    this.#sent.splice(at, 0, added);
    if (message.clientMessageId !== null) this.dropPending(message.clientMessageId);
    return added;
  }

  apply(event: ChatEvent): void {
    switch (event.type) {
      case "message":
        this.put(event.message);
        if (event.thread) this.#setReplyCount(event.thread);
        return;
      case "message.updated":
        if (this.find(event.message.id)) this.put(event.message);
        return;
      case "message.deleted":
        this.#entomb(event.messageId, event.deletedAt);
        if (event.thread) this.#setReplyCount(event.thread);
        return;
      case "reaction.added":
      case "reaction.removed": {
        const message = this.find(event.messageId);
        if (message) message.reactions = event.reactions;
        return;
      }
    }
  }

  /** Too much was missed: forget what is known of the past, keep what still waits to be sent. */
  reset(messages: Message[]): void {
    this.#sent = [];
    for (const message of messages) this.put(message);
  }

  #setReplyCount({ rootId, replyCount }: { rootId: string; replyCount: number }): void {
    const root = this.find(rootId);
    if (root) root.replyCount = replyCount;
  }

  #entomb(messageId: string, deletedAt: string): void {
    const message = this.find(messageId);
    if (!message) return;
    Object.assign(message, { deleted: true, deletedAt, text: null, metadata: null, attachment: null, reactions: [] });
  }
}
