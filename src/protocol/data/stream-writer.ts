import type { DataPacket } from "./data-packet.ts";

/** The largest piece that LiveKit's clients expect in one packet. */
const CHUNK_BYTES = 15_000;
/**
 * How far the sender may be ahead of the slowest reader. With twice as much waiting at the server, other messages would have to
 * wait too.
 */
const MAX_UNCREDITED_BYTES = 512 * 1_024;
/** A reader that grants no credit for this long is left out. */
const PATIENCE_MS = 30_000;

/** Options for `room.streamText` and `room.streamBytes`. */
export type StreamOptions = {
  /** The topic, by which receivers choose a handler. */
  topic?: string;
  /** The identities of the receivers; all participants by default. */
  to?: string[];
  /** Strings for the receivers' handlers. */
  attributes?: Record<string, string>;
  /** A file name. */
  name?: string;
  /** The content's MIME type. */
  mimeType?: string;
  /** The size in bytes, if it is known; the receivers then notice when something is missing. */
  size?: number;
};

type WriterDeps = {
  send(packet: DataPacket): Promise<void>;
  waitForSpace(): Promise<void>;
  /** The identities of the other participants in the room. */
  present(): readonly string[];
  /** Whether the server holds much of this participant's data for that reader. */
  isBehind(identity: string): boolean;
  /** Called when a reader is left out because it is too slow. */
  leftOut(identity: string): void;
  ended(): void;
  fail(code: "STREAM_ENDED" | "NO_READER", message: string): Error;
};

/** A stream that this participant sends. `write` resolves when more can be written. */
export class StreamWriter {
  /** The stream's id. */
  readonly id: string;
  readonly #deps: WriterDeps;
  readonly #options: StreamOptions;
  /** Null for all participants. */
  #to: string[] | null;
  /** The readers that grant credit. */
  readonly #readers = new Map<string, { upTo: number; atMs: number }>();
  #last: Promise<void>;
  #index = 0;
  #sent = 0;
  #error: Error | null = null;
  #isEnded = false;
  #wake: () => void = () => {};

  /** @internal */
  constructor(id: string, kind: "text" | "bytes", options: StreamOptions, deps: WriterDeps) {
    const { topic = "", to, attributes, name, size } = options;
    const { mimeType = kind === "text" ? "text/plain" : "application/octet-stream" } = options;
    this.id = id;
    this.#deps = deps;
    this.#options = options;
    this.#to = to ? [...to] : null;
    this.#last = this.#send({
      header: {
        streamId: id,
        timestamp: Date.now(),
        topic,
        mimeType,
        totalLength: size,
        attributes,
        credited: 1,
        ...(kind === "text" ? { text: {} } : { file: { name: name ?? "" } }),
      },
    });
    this.#last.catch((error) => this.#fail(error));
  }

  /** @internal */
  get topic(): string {
    return this.#options.topic ?? "";
  }

  /** Sends the next piece, however large. */
  write(piece: string | Uint8Array): Promise<void> {
    const bytes = typeof piece === "string" ? new TextEncoder().encode(piece) : piece;
    return this.#next(async () => {
      for (let at = 0; at < bytes.length; ) {
        const end = typeof piece === "string" ? endOfCharacters(bytes, at + CHUNK_BYTES) : at + CHUNK_BYTES;
        const content = bytes.subarray(at, end);
        await this.#waitForReaders();
        await this.#deps.waitForSpace();
        await this.#send({ chunk: { streamId: this.id, index: this.#index, content } });
        this.#index += 1;
        this.#sent += content.length;
        at = end;
      }
    });
  }

  /** Ends the stream. */
  close(): Promise<void> {
    return this.#next(async () => {
      await this.#send({ trailer: { streamId: this.id } });
      this.#finish();
    });
  }

  /** Ends the stream before its end; the receivers get an error with the reason. */
  async abort(reason = "cancelled"): Promise<void> {
    if (this.#isEnded) return;
    this.#fail(this.#deps.fail("STREAM_ENDED", `The stream was ended: ${reason}.`));
    await this.#deps.send(this.#addressed({ trailer: { streamId: this.id, reason } }));
  }

  /** @internal */
  credited(identity: string, upTo: number): void {
    // A stranger, or a reader that was left out, must not be able to hold up the stream.
    if (!(this.#to?.includes(identity) ?? this.#deps.present().includes(identity))) return;
    const known = this.#readers.get(identity)?.upTo ?? 0;
    this.#readers.set(identity, { upTo: Math.max(known, upTo), atMs: Date.now() });
    this.#wake();
  }

  /** @internal A reader has left or wants nothing more. */
  leave(identity: string): void {
    this.#readers.delete(identity);
    if (this.#isEnded) return;
    const isNamed = this.#to?.includes(identity) ?? true;
    if (!isNamed) return;
    this.#to = (this.#to ?? this.#deps.present()).filter((one) => one !== identity);
    if (this.#options.to && this.#to.length === 0)
      this.#fail(this.#deps.fail("NO_READER", "No receiver of the stream is left."));
    this.#wake();
  }

  /** @internal */
  fail(error: Error): void {
    this.#fail(error);
  }

  /** @internal The server reports how far readers are behind. */
  changed(): void {
    this.#wake();
  }

  #next(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(() => {
      if (this.#error) throw this.#error;
      if (this.#isEnded) throw this.#deps.fail("STREAM_ENDED", "The stream has been closed.");
      return work();
    });
    this.#last = done.catch((error) => this.#fail(error));
    return done;
  }

  #send(content: DataPacket): Promise<void> {
    if (this.#error) throw this.#error;
    return this.#deps.send(this.#addressed(content));
  }

  #addressed(content: DataPacket): DataPacket {
    return this.#to ? { ...content, to: this.#to } : content;
  }

  async #waitForReaders(): Promise<void> {
    const sinceMs = Date.now();
    for (;;) {
      if (this.#error) throw this.#error;
      const slow = this.#slowReaders();
      if (slow.length === 0) return;
      const dueMs = slow.map((one) => Math.max(sinceMs, this.#readers.get(one)?.atMs ?? 0) + PATIENCE_MS);
      const late = slow.filter((_, index) => (dueMs[index] ?? 0) <= Date.now());
      for (const identity of late) await this.#leaveOut(identity);
      if (late.length === 0) await this.#changedBefore(Math.min(...dueMs));
    }
  }

  #slowReaders(): string[] {
    const present = this.#deps.present();
    const slow = new Set(
      (this.#to ?? present).filter((identity) => present.includes(identity) && this.#deps.isBehind(identity)),
    );
    for (const [identity, { upTo }] of this.#readers) if (this.#sent - upTo >= MAX_UNCREDITED_BYTES) slow.add(identity);
    return [...slow];
  }

  async #leaveOut(identity: string): Promise<void> {
    await this.#deps.send({ trailer: { streamId: this.id, reason: "slow_reader" }, to: [identity] });
    this.#deps.leftOut(identity);
    this.leave(identity);
  }

  #changedBefore(dueMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, dueMs - Date.now());
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #fail(error: Error): void {
    this.#error ??= error;
    this.#finish();
    this.#wake();
  }

  #finish(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#deps.ended();
  }
}

/** The last position up to `end` that does not split a UTF-8 character. */
function endOfCharacters(bytes: Uint8Array, end: number): number {
  let at = Math.min(end, bytes.length);
  while (at < bytes.length && ((bytes[at] ?? 0) & 0xc0) === 0x80) at--;
  return at;
}
