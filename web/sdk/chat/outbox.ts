import type { Attachment, Message, Metadata } from "../../../src/protocol/chat-records.ts";
import { deferred } from "../deferred.ts";
import type { StoaError } from "../errors.ts";
import { uuid } from "../uuid.ts";
import type { LocalMessage } from "./timeline.ts";

/** The content of a message: text, an attachment, or both. */
export type SendInput = {
  text?: string;
  metadata?: Metadata;
  replyTo?: string;
  attachment?: Attachment;
  clientMessageId?: string;
};

export type Outgoing = { input: SendInput; clientMessageId: string; clientSentAt: number };

type Waiting = Outgoing & { resolve: (message: Message) => void; reject: (error: StoaError) => void };

/**
 * Messages that the server has not acknowledged, delivered one after another to keep their order. Each keeps its client
 * id, so a message that is sent twice because its acknowledgement was lost is stored once.
 */
export class Outbox {
  #waiting: Waiting[] = [];
  #running = false;

  /** `deliver` waits for a connection and retries after a lost one, so an error from it is final. */
  constructor(readonly deliver: (outgoing: Outgoing) => Promise<Message>) {}

  add(input: SendInput): { outgoing: Outgoing; done: Promise<Message> } {
    const { promise, resolve, reject } = deferred<Message>();
    const clientMessageId = input.clientMessageId ?? uuid();
    const outgoing = { input, clientMessageId, clientSentAt: Date.now() };
    this.#waiting.push({ ...outgoing, resolve, reject });
    void this.#run();
    return { outgoing, done: promise };
  }

  /** Rejects all messages that are still waiting. */
  fail(error: StoaError): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      try {
        const message = await this.deliver(next);
        this.#take(next)?.resolve(message);
      } catch (error) {
        this.#take(next)?.reject(error as StoaError);
      }
    }
    this.#running = false;
  }

  #take(waiting: Waiting): Waiting | undefined {
    const at = this.#waiting.indexOf(waiting);
    return at < 0 ? undefined : this.#waiting.splice(at, 1)[0];
  }
}

/** The local copy of a message until the server has stored it. */
export function pendingMessage(
  { input, clientMessageId, clientSentAt }: Outgoing,
  sender: Pick<LocalMessage, "conversationId" | "senderId" | "senderName">,
): LocalMessage {
  const at = new Date(clientSentAt).toISOString();
  return {
    id: clientMessageId,
    seq: Number.MAX_SAFE_INTEGER,
    ...sender,
    type: input.attachment ? "attachment" : "text",
    text: input.text ?? null,
    replyTo: input.replyTo ?? null,
    threadRootId: null,
    replyCount: 0,
    clientMessageId,
    attachment: input.attachment ?? null,
    metadata: input.metadata ?? null,
    mentions: [],
    reactions: [],
    pinned: false,
    edited: false,
    editedAt: null,
    deleted: false,
    deletedAt: null,
    createdAt: at,
    updatedAt: at,
    cursor: "",
    status: "sending",
  };
}
