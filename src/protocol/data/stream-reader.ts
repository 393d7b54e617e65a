import { concat } from "../media/protobuf.ts";
import type { StreamHeader } from "./data-packet.ts";

/** A stream grants its sender credit in steps of this size. */
const CREDIT_BYTES = 256 * 1024;
/** A sender that does not support credit may send this much before it is read. */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024;

export type StreamFailure = "STREAM_INCOMPLETE" | "STREAM_ABORTED" | "STREAM_UNREAD";

type ReaderDeps = {
  /** Tells the sender that everything up to this position has been read. */
  grant(upTo: number): void;
  /** Called when nothing more is wanted or expected. */
  ended(isCancelled: boolean): void;
  fail(code: StreamFailure, message: string): Error;
};

/** A stream of bytes or text from another participant. Read it once: in pieces or as a whole. */
export class StreamReader implements AsyncIterable<Uint8Array> {
  /** The stream's id. */
  readonly id: string;
  /** Whether the sender streams text or bytes. */
  readonly kind: "text" | "bytes";
  /** The stream's topic. */
  readonly topic: string;
  /** The file's name, if the sender has given one. */
  readonly name: string | null;
  /** The content's MIME type. */
  readonly mimeType: string;
  /** The size in bytes, if the sender knows it. */
  readonly size: number | null;
  /** What the sender has added: at the beginning, and for some senders at the end. */
  attributes: Readonly<Record<string, string>>;
  readonly #deps: ReaderDeps;
  readonly #grantsCredit: boolean;
  #unread: Uint8Array[] = [];
  #nextIndex = 0;
  #received = 0;
  #consumed = 0;
  #granted = 0;
  #isComplete = false;
  #error: Error | null = null;
  #wake: () => void = () => {};

  /** @internal */
  constructor(header: StreamHeader, deps: ReaderDeps) {
    const { streamId = "", topic = "", mimeType = "", totalLength, attributes = {}, text, file } = header;
    this.id = streamId;
    this.kind = text ? "text" : "bytes";
    this.topic = topic;
    this.name = file?.name || null;
    this.mimeType = mimeType;
    this.size = totalLength ?? null;
    this.attributes = attributes;
    this.#deps = deps;
    this.#grantsCredit = (header.credited ?? 0) > 0;
    if (this.#grantsCredit && (totalLength ?? Number.POSITIVE_INFINITY) > CREDIT_BYTES) deps.grant(0);
  }

  /** The pieces in order, as they arrive. Leaving the loop cancels the stream. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        const piece = this.#unread.shift();
        if (piece) {
          yield piece;
          this.#consume(piece.length);
        } else if (this.#error) throw this.#error;
        else if (this.#isComplete) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      this.cancel();
    }
  }

  /** The text in pieces, as it arrives. */
  async *strings(): AsyncGenerator<string, void, undefined> {
    const decoder = new TextDecoder();
    for await (const piece of this) yield decoder.decode(piece, { stream: true });
  }

  /** The whole content as text. */
  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes());
  }

  /** The whole content as bytes. */
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this) pieces.push(piece);
    return concat(pieces);
  }

  /** The whole content as a Blob of the stream's MIME type. */
  async blob(): Promise<Blob> {
    return new Blob([await this.bytes()], { type: this.mimeType });
  }

  /** Cancels the stream: the sender stops sending it to this participant. */
  cancel(): void {
    if (this.#isComplete || this.#error) return;
    this.#unread = [];
    this.#end("STREAM_ABORTED", "The stream was cancelled.", true);
  }

  /** @internal */
  receive(index: number, content: Uint8Array): void {
    if (this.#isComplete || this.#error || index < this.#nextIndex) return;
    if (index > this.#nextIndex) {
      this.#end("STREAM_INCOMPLETE", "A part of the stream is missing.");
      return;
    }
    this.#nextIndex += 1;
    this.#received += content.length;
    if (this.#received > (this.size ?? Number.POSITIVE_INFINITY))
      this.#end("STREAM_INCOMPLETE", "The stream is longer than announced.");
    else if (this.#received - this.#consumed > MAX_UNREAD_BYTES)
      this.#end("STREAM_UNREAD", "More of the stream has arrived than was read.", true);
    else if (content.length > 0) this.#unread.push(content);
    this.#wake();
  }

  /** @internal */
  complete(reason: string, added: Record<string, string> = {}): void {
    if (this.#isComplete || this.#error) return;
    if (reason !== "") this.#end("STREAM_ABORTED", `The sender has ended the stream: ${reason}.`);
    else if (this.#received < (this.size ?? 0)) this.#end("STREAM_INCOMPLETE", "A part of the stream is missing.");
    else {
      this.#isComplete = true;
      this.attributes = { ...this.attributes, ...added };
      this.#deps.ended(false);
    }
    this.#wake();
  }

  /** @internal The sender has left, or this participant has. */
  abort(message: string): void {
    if (!this.#isComplete && !this.#error) this.#end("STREAM_ABORTED", message);
  }

  #end(code: StreamFailure, message: string, isCancelled = false): void {
    this.#error = this.#deps.fail(code, message);
    this.#deps.ended(isCancelled);
    this.#wake();
  }

  #consume(length: number): void {
    this.#consumed += length;
    if (!this.#grantsCredit || this.#isComplete || this.#consumed - this.#granted < CREDIT_BYTES) return;
    this.#granted = this.#consumed;
    this.#deps.grant(this.#consumed);
  }
}
