import type {
  Attachment,
  ConversationMember,
  Conversation as ConversationRecord,
  Message,
  MessagePage,
  ReadReceipt,
} from "../../../src/protocol/chat-records.ts";
import { Emitter } from "../emitter.ts";
import { query, type Rest } from "../rest.ts";
import type { ConversationEvents } from "./conversation-events.ts";
import { type UploadOptions, upload } from "./upload.ts";

/** The half of a conversation that is asked for over REST: it changes nothing that is shown live. */
export abstract class ConversationArchive extends Emitter<ConversationEvents> {
  /** As the server has it. */
  abstract record: ConversationRecord;
  readonly #rest: Rest;

  /** @internal */
  constructor(rest: Rest) {
    super();
    this.#rest = rest;
  }

  /** `conv_…` */
  get id(): string {
    return this.record.id;
  }

  /** A page of messages, newest first. */
  history(options: { before?: string; after?: string; limit?: number; senderId?: string } = {}): Promise<MessagePage> {
    return this.#rest.call("GET", `${this.#path}/messages${query(options)}`);
  }

  /** The message and every reply to it, oldest first. */
  thread(rootId: string): Promise<Message[]> {
    return this.#rest.call("GET", `/v1/chat/messages/${rootId}/thread`);
  }

  /** Everyone who belongs to it. */
  members(): Promise<ConversationMember[]> {
    return this.#rest.call("GET", `${this.#path}/members`);
  }

  /** How far each member has read. */
  readReceipts(): Promise<ReadReceipt[]> {
    return this.#rest.call("GET", `${this.#path}/read-receipts`);
  }

  /** Messages that hold these words. */
  search(text: string, limit?: number): Promise<Message[]> {
    return this.#rest.call("GET", `${this.#path}/search${query({ q: text, limit })}`);
  }

  /** Uploads a file without sending a message: pass it to `send` as `attachment`. */
  upload(file: Blob, options: UploadOptions = {}): Promise<Attachment> {
    return upload(this.#rest, this.id, file, options);
  }

  /** A short-lived address of an attachment's bytes. */
  async downloadUrl(attachmentId: string): Promise<string> {
    return (await this.#rest.call<{ url: string }>("GET", `/v1/chat/attachments/${attachmentId}/download-url`)).url;
  }

  get #path(): string {
    return `/v1/chat/conversations/${this.id}`;
  }
}
