import type {
  Attachment,
  ConversationMember,
  Conversation as ConversationRecord,
  Message,
  MessagePage,
  ReadReceipt,
} from "../../../src/protocol/chat-records.ts";
import { Emitter } from "../../../src/protocol/data/emitter.ts";
import { query, type Rest } from "../rest.ts";
import type { ConversationEvents } from "./conversation-events.ts";
import type { UploadOptions } from "./upload.ts";

/** The REST calls of a conversation, which do not change its live state. */
export abstract class ConversationArchive extends Emitter<ConversationEvents> {
  /** The conversation's record. */
  abstract record: ConversationRecord;
  readonly #rest: Rest;

  /** @internal */
  constructor(rest: Rest) {
    super();
    this.#rest = rest;
  }

  /** The conversation's `conv_` id. */
  get id(): string {
    return this.record.id;
  }

  /** Loads a page of messages, newest first. */
  history(options: { before?: string; after?: string; limit?: number; senderId?: string } = {}): Promise<MessagePage> {
    return this.#rest.call("GET", `${this.#path}/messages${query(options)}`);
  }

  /** Loads a message and its replies, oldest first. */
  thread(rootId: string): Promise<Message[]> {
    return this.#rest.call("GET", `/v1/chat/messages/${rootId}/thread`);
  }

  /** Lists the conversation's members. */
  members(): Promise<ConversationMember[]> {
    return this.#rest.call("GET", `${this.#path}/members`);
  }

  /** Lists how far each member has read. */
  readReceipts(): Promise<ReadReceipt[]> {
    return this.#rest.call("GET", `${this.#path}/read-receipts`);
  }

  /** Searches the conversation's messages for words. */
  search(text: string, limit?: number): Promise<Message[]> {
    return this.#rest.call("GET", `${this.#path}/search${query({ q: text, limit })}`);
  }

  /** Uploads a file without sending a message: pass it to `send` as `attachment`. */
  async upload(file: Blob, options: UploadOptions = {}): Promise<Attachment> {
    const { upload } = await import("./upload.ts");
    return upload(this.#rest, this.id, file, options);
  }

  /** Requests a short-lived URL for an attachment's content. */
  async downloadUrl(attachmentId: string): Promise<string> {
    return (await this.#rest.call<{ url: string }>("GET", `/v1/chat/attachments/${attachmentId}/download-url`)).url;
  }

  get #path(): string {
    return `/v1/chat/conversations/${this.id}`;
  }
}
