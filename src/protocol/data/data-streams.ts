/** The streams that one participant sends and receives: handlers by topic, and credit in messages of the topic `stoa.credit`. */
import type { DataPacket } from "./data-packet.ts";
import { type StreamFailure, StreamReader } from "./stream-reader.ts";
import { type StreamOptions, StreamWriter } from "./stream-writer.ts";

/** Reads a stream that the participant `from` sends. */
export type StreamHandler = (reader: StreamReader, from: string) => unknown;

export type StreamsDeps = {
  send(packet: DataPacket): Promise<void>;
  waitForSpace(): Promise<void>;
  present(): readonly string[];
  /** Whether the server holds much of this participant's data for that reader. */
  isBehind(identity: string): boolean;
  newId(): string;
  onLeftOut(identity: string, topic: string): void;
  /** Handles streams of captions, unless the application has a handler of its own for their topic. */
  onCaption: StreamHandler;
  onError(error: unknown): void;
  fail(code: StreamFailure | "STREAM_ENDED" | "NO_READER" | "HANDLER_EXISTS", message: string): Error;
};

const CREDIT_TOPIC = "stoa.credit";
/** LiveKit's topic for transcriptions. */
const CAPTION_TOPIC = "lk.transcription";
/** The limit of streams being received from one participant; further streams are ignored. */
const MAX_READERS = 250;

/** Grants credit for everything read up to `upTo`; `stop` cancels the stream. */
type Credit = { id: string; upTo?: number; stop?: true };

export class DataStreams {
  readonly #deps: StreamsDeps;
  readonly #handlers = new Map<string, StreamHandler>();
  readonly #readers = new Map<string, { from: string; reader: StreamReader }>();
  readonly #writers = new Map<string, StreamWriter>();

  constructor(deps: StreamsDeps) {
    this.#deps = deps;
  }

  /** Returns a function that removes the handler. */
  onStream(topic: string, handler: StreamHandler): () => void {
    if (this.#handlers.has(topic))
      throw this.#deps.fail("HANDLER_EXISTS", `The streams of the topic "${topic}" have a handler already.`);
    this.#handlers.set(topic, handler);
    return () => void this.#handlers.delete(topic);
  }

  write(kind: "text" | "bytes", options: StreamOptions): StreamWriter {
    const { send, waitForSpace, present, isBehind, newId, onLeftOut, fail } = this.#deps;
    const id = newId();
    const writer: StreamWriter = new StreamWriter(id, kind, options, {
      send,
      waitForSpace,
      present,
      isBehind,
      fail,
      leftOut: (identity) => onLeftOut(identity, writer.topic),
      ended: () => this.#writers.delete(id),
    });
    this.#writers.set(id, writer);
    return writer;
  }

  /** Returns false for a packet that does not belong to a stream. */
  receive({ from = "", user, header, chunk, trailer }: DataPacket): boolean {
    if (header) this.#begin(from, header);
    else if (chunk) this.#reader(from, chunk.streamId)?.receive(chunk.index ?? 0, chunk.content ?? new Uint8Array());
    else if (trailer) this.#reader(from, trailer.streamId)?.complete(trailer.reason ?? "", trailer.attributes);
    else if (user?.topic === CREDIT_TOPIC) this.#credit(from, user.payload ?? new Uint8Array());
    else return false;
    return true;
  }

  left(identity: string): void {
    for (const writer of [...this.#writers.values()]) writer.leave(identity);
    for (const { from, reader } of [...this.#readers.values()])
      if (from === identity) reader.abort("The sender has left.");
  }

  /** Called when readers have fallen behind or caught up. */
  readersChanged(): void {
    for (const writer of this.#writers.values()) writer.changed();
  }

  /** The session has ended, so no more packets of its streams will arrive. */
  reset(): void {
    const message = "The session has ended.";
    for (const { reader } of [...this.#readers.values()]) reader.abort(message);
    for (const writer of [...this.#writers.values()]) writer.fail(this.#deps.fail("STREAM_ENDED", message));
  }

  #begin(from: string, header: NonNullable<DataPacket["header"]>): void {
    const { streamId = "", topic = "", compression = 0 } = header;
    const handler = this.#handlers.get(topic) ?? (topic === CAPTION_TOPIC ? this.#deps.onCaption : undefined);
    const key = keyOf(from, streamId);
    const open = [...this.#readers.values()].filter((one) => one.from === from);
    if (!handler || compression !== 0 || this.#readers.has(key) || open.length >= MAX_READERS) return;
    const grant = (credit: Omit<Credit, "id">) => {
      const payload = new TextEncoder().encode(JSON.stringify({ id: streamId, ...credit } satisfies Credit));
      this.#deps.send({ user: { topic: CREDIT_TOPIC, payload }, to: [from] }).catch(() => {});
    };
    const reader = new StreamReader(header, {
      grant: (upTo) => grant({ upTo }),
      ended: (isCancelled) => {
        this.#readers.delete(key);
        if (isCancelled && header.credited) grant({ stop: true });
      },
      fail: this.#deps.fail,
    });
    this.#readers.set(key, { from, reader });
    Promise.resolve()
      .then(() => handler(reader, from))
      .catch(this.#deps.onError);
  }

  /** Only packets of the stream's own sender are added to it. */
  #reader(from: string, streamId = ""): StreamReader | undefined {
    return this.#readers.get(keyOf(from, streamId))?.reader;
  }

  #credit(from: string, payload: Uint8Array): void {
    let credit: Partial<Credit> | null;
    try {
      credit = JSON.parse(new TextDecoder().decode(payload));
    } catch {
      return;
    }
    const writer = this.#writers.get(String(credit?.id));
    if (credit?.stop) writer?.leave(from);
    else if (Number.isSafeInteger(credit?.upTo)) writer?.credited(from, credit?.upTo ?? 0);
  }
}

const keyOf = (from: string, streamId: string) => `${streamId}\n${from}`;
