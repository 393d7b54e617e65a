import type { Attachment, Message, Metadata } from "../../../src/protocol/chat-records.ts";
import type { StoaError } from "../errors.ts";
import type { LocalMessage } from "./timeline.ts";

export type Outgoing = {
  input: {
    text?: string;
    metadata?: Metadata;
    replyTo?: string;
    attachment?: Attachment;
    clientMessageId?: string;
  };
  clientMessageId: string;
  clientSentAt: number;
};

type Waiting = Outgoing & {
  resolve: (message: Message) => void;
  reject: (error: StoaError) => void;
  inFlight: boolean;
};

/**
 * Messages that the server has not acknowledged. A lost connection leaves them here; `resend` sends them again under
 * the same client id, which the server answers with the original if the first one had arrived after all.
 */
export class Outbox {
  readonly #waiting = new Map<string, Waiting>();

  constructor(readonly deliver: (outgoing: Outgoing) => Promise<Message>) {}

  add(input: Outgoing["input"], conversationId: string): { pending: LocalMessage; done: Promise<Message> } {
    const clientMessageId = input.clientMessageId ?? crypto.randomUUID();
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const { clientMessageId: _, ...rest } = input;
    const waiting: Waiting = {
      input: rest,
      clientMessageId,
      clientSentAt: Date.now(),
      resolve,
      reject,
      inFlight: false,
    };
    this.#waiting.set(clientMessageId, waiting);
    void this.#attempt(waiting);
    return { pending: pendingMessage(waiting, conversationId), done: promise };
  }

  resend(): void {
    for (const waiting of this.#waiting.values()) void this.#attempt(waiting);
  }

  fail(error: StoaError): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  async #attempt(waiting: Waiting): Promise<void> {
    if (waiting.inFlight) return;
    waiting.inFlight = true;
    try {
      const message = await this.deliver(waiting);
      this.#waiting.delete(waiting.clientMessageId);
      waiting.resolve(message);
    } catch (error) {
      const { reason } = error as StoaError;
      // Lost with the connection, not refused: it stays for the next one.
      if (reason === "closed" || reason === "network" || reason === "timeout") return;
      this.#waiting.delete(waiting.clientMessageId);
      waiting.reject(error as StoaError);
    } finally {
      waiting.inFlight = false;
    }
  }
}

function pendingMessage({ input, clientMessageId, clientSentAt }: Outgoing, conversationId: string): LocalMessage {
  const at = new Date(clientSentAt).toISOString();
  return {
    id: clientMessageId,
    seq: Number.MAX_SAFE_INTEGER,
    conversationId,
    senderId: null,
    type: input.attachment ? "attachment" : "text",
    text: input.text ?? null,
    replyTo: input.replyTo ?? null,
    threadRootId: null,
    replyCount: 0,
    clientMessageId,
    attachment: input.attachment ?? null,
    metadata: input.metadata ?? null,
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
