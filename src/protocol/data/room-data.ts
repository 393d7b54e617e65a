/** The data of one participant in a room: messages, streams and requests, across its connections and sessions. */
import type { DataCipher } from "../encryption/data-cipher.ts";
import type { CaptionDeps, CaptionOptions } from "./captions.ts";
import { DataChannels, type DataFrame, type DataTransport, textOf } from "./data-channels.ts";
import type { DataPacket } from "./data-packet.ts";
import { DataStreams, type StreamsDeps } from "./data-streams.ts";
import { ReliableBuffer } from "./reliable-buffer.ts";
import { Requests } from "./requests.ts";
import { SlowReaders } from "./slow-readers.ts";
import type { StreamOptions } from "./stream-writer.ts";

/** Options for `room.sendData`. */
export type DataOptions = {
  /** Whether messages are retransmitted and kept in order; true by default. */
  reliable?: boolean;
  /** The message's topic, passed on to the receivers. */
  topic?: string;
  /** The identities of the receivers; all participants by default. */
  to?: string[];
};

/** A received data message. */
export type DataMessage = {
  /** The sender's identity, or null for the server. */
  from: string | null;
  /** The message's topic, if it has one. */
  topic?: string;
  /** The message as text; empty if its bytes are not UTF-8. */
  payload: string;
  /** The message as bytes. */
  bytes: Uint8Array;
};

/** Options for `room.sendFile`. */
export type SendFileOptions = Omit<StreamOptions, "size"> & {
  /** Called with the sent fraction, from 0 to 1. */
  onProgress?: (fraction: number) => void;
  /** Cancels the sending; the receivers get an error. */
  signal?: AbortSignal;
};

type FailureCode =
  | Parameters<StreamsDeps["fail"]>[0]
  | "PAYLOAD_TOO_LARGE"
  | "NOT_CONNECTED"
  | "PERMISSION_DENIED"
  | "MISSING_KEY";

export type RoomDataDeps = Pick<StreamsDeps, "present" | "newId" | "onLeftOut" | "onError"> &
  CaptionDeps & {
    sendBySocket(frame: DataFrame): Promise<unknown>;
    onMessage(message: DataMessage): void;
    /** Null if the room's data is not encrypted. */
    encryption: DataCipher | null;
    fail(code: FailureCode, message: string): Error;
  };

const loadCaptions = () => import("./captions.ts");

/** Handles the messages of a topic. */
type MessageHandler = (message: DataMessage) => void;

export class RoomData {
  readonly streams: DataStreams;
  readonly requests: Requests;
  readonly #slowReaders = new SlowReaders();
  readonly #deps: RoomDataDeps;
  readonly #handlers = new Map<string, Set<MessageHandler>>();
  #buffer = new ReliableBuffer();
  #channels: DataChannels | null = null;
  #isPermitted = true;
  #isClosed = false;
  #waiting: (() => void)[] = [];

  constructor(deps: RoomDataDeps) {
    this.#deps = deps;
    const { present, newId, onLeftOut, onError, fail } = deps;
    const send = (packet: DataPacket) => this.#send(packet);
    this.streams = new DataStreams({
      send,
      present,
      newId,
      onLeftOut,
      onError,
      fail,
      onCaption: async (reader, from) => (await loadCaptions()).readCaption(reader, from, deps),
      waitForSpace: async () => this.#channels?.waitForStreamSpace(),
      isBehind: (identity) => this.#slowReaders.isBehind(identity),
    });
    this.requests = new Requests({ send, streams: this.streams, present, newId, onError });
  }

  /** Opens the channels of a new connection. Data sent on an earlier connection of the session continues. */
  connect(transport: DataTransport): void {
    const { sendBySocket, fail, encryption } = this.#deps;
    this.#channels = new DataChannels({
      transport,
      sendBySocket,
      fail,
      encryption,
      buffer: this.#buffer,
      onPacket: (packet) => this.#receive(packet),
    });
    this.#proceed();
  }

  /** Whether a connection with channels is in use. */
  get isConnected(): boolean {
    return this.#channels !== null && !this.#channels.isEnded;
  }

  /** Whether this participant may send data. */
  permit(isPermitted: boolean): void {
    this.#isPermitted = isPermitted;
    this.#proceed();
  }

  /** Discards the messages, streams and requests of the last session. */
  newSession(): void {
    this.#buffer = new ReliableBuffer();
    this.#channels = null;
    this.#slowReaders.clear();
    this.streams.reset();
    this.requests.reset();
    this.#proceed();
  }

  close(): void {
    this.newSession();
    this.#isClosed = true;
  }

  async sendData(payload: string | Uint8Array, { reliable = true, topic, to }: DataOptions): Promise<void> {
    const packet: DataPacket = { user: { payload: bytesOf(payload), topic }, to };
    if (reliable) {
      await this.#slowReaders.wait(to);
      return this.#send(packet);
    }
    if (!this.#channels || !this.#isPermitted) throw this.#unavailable();
    await this.#channels.sendLossy(packet);
  }

  /** Returns a function that removes the handler. */
  onData(topic: string, handler: MessageHandler): () => void {
    const handlers = this.#handlers.get(topic) ?? new Set();
    this.#handlers.set(topic, handlers.add(handler));
    return () => void handlers.delete(handler);
  }

  async sendFile(file: Blob, options: SendFileOptions = {}): Promise<void> {
    const { sendFile } = await import("./send-file.ts");
    return sendFile(this.streams, file, options, () => this.#deps.fail("STREAM_ENDED", "The sending was cancelled."));
  }

  async sendText(text: string, options: StreamOptions = {}): Promise<void> {
    const writer = this.streams.write("text", { ...options, size: bytesOf(text).length });
    await writer.write(text);
    await writer.close();
  }

  async sendCaption(text: string, options: CaptionOptions): Promise<string> {
    const { sendCaption } = await loadCaptions();
    return sendCaption(this, text, { id: this.#deps.newId(), ...options });
  }

  /** Takes the server's push `data.behind`. */
  readerBehind(identity: string, bytes: number): void {
    this.#slowReaders.update(identity, bytes);
    this.streams.readersChanged();
  }

  participantLeft(identity: string): void {
    this.#slowReaders.update(identity, 0);
    this.#deps.encryption?.participantLeft(identity);
    this.streams.left(identity);
    this.requests.left(identity);
  }

  /** Delivers a message that arrived on the RTC socket, which never carries encrypted messages. */
  receiveFromSocket(from: string | null, topic: string | undefined, payload: string): void {
    const packet = { from: from ?? "", user: { topic, payload: bytesOf(payload) } };
    if (this.#deps.encryption) this.#deps.encryption.open(packet, (opened) => this.#receive(opened));
    else this.#receive(packet);
  }

  #deliver(from: string | null, topic: string | undefined, bytes: Uint8Array): void {
    const message = { from, ...(topic ? { topic } : {}), payload: textOf(bytes) ?? "", bytes };
    this.#deps.onMessage(message);
    for (const handler of [...(this.#handlers.get(topic ?? "") ?? [])]) {
      try {
        handler(message);
      } catch (error) {
        this.#deps.onError(error);
      }
    }
  }

  #receive(packet: DataPacket): void {
    if (this.streams.receive(packet) || this.requests.receive(packet)) return;
    const { from, user } = packet;
    if (user) this.#deliver(from || null, user.topic, user.payload ?? new Uint8Array());
  }

  /** Sends reliably and in order, even across the session's connections. */
  #send(packet: DataPacket): Promise<void> {
    const buffer = this.#buffer;
    const sent = buffer.lastSend.then(() => this.#sendNext(packet, buffer));
    buffer.lastSend = sent.catch(() => {});
    return sent;
  }

  async #sendNext(packet: DataPacket, buffer: ReliableBuffer): Promise<void> {
    for (;;) {
      if (buffer !== this.#buffer || !this.#isPermitted || this.#isClosed) throw this.#unavailable();
      const channels = this.#channels;
      if (channels && !channels.isEnded && (await channels.sendReliable(packet))) return;
      if (channels === this.#channels) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #proceed(): void {
    for (const proceed of this.#waiting.splice(0)) proceed();
  }

  #unavailable(): Error {
    return this.#isPermitted
      ? this.#deps.fail("NOT_CONNECTED", "The session has ended before the data was sent.")
      : this.#deps.fail("PERMISSION_DENIED", "This token does not permit data.");
  }
}

function bytesOf(payload: string | Uint8Array): Uint8Array {
  return typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
}
