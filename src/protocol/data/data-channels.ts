/** The data channels of one connection: `DataPacket`s, numbered and acknowledged on the reliable one. */
import type { DataCipher } from "../encryption/data-cipher.ts";
import { type DataPacket, decodePacket, encodePacket } from "./data-packet.ts";
import type { ReliableBuffer } from "./reliable-buffer.ts";

/** The members of `RTCDataChannel` that are used, because a bot compiles without the browser's types. */
export type DataChannelLike = {
  readonly readyState: "connecting" | "open" | "closing" | "closed";
  binaryType: string;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  addEventListener(type: "open" | "close", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
};

export type DataTransport = {
  /** Aborts when the connection is closed. */
  readonly ended: AbortSignal;
  addChannel(
    label: string,
    options?: { ordered?: boolean; maxRetransmits?: number; protocol?: string },
  ): DataChannelLike;
};

/** A message as the RTC socket carries it. */
export type DataFrame = { topic?: string; to?: string[]; payload: string };

type DataFailure = "PAYLOAD_TOO_LARGE" | "NOT_CONNECTED" | "MISSING_KEY";

type DataChannelsDeps = {
  transport: DataTransport;
  /** The session's reliable data, which is kept across connections. */
  buffer: ReliableBuffer;
  /** Sends a small text over the RTC socket while no channel is open. */
  sendBySocket(frame: DataFrame): Promise<unknown>;
  onPacket(packet: DataPacket): void;
  /** Null if the data is not encrypted. */
  encryption: DataCipher | null;
  fail(code: DataFailure, message: string): Error;
};

const REOPEN_MS = 500;
const MAX_PACKET_BYTES = 65_536;
const MAX_SOCKET_BYTES = 8_192;
/** How long messages wait for their channel, which may never open. */
const OPENING_MS = 15_000;
/** How long an acknowledgement is delayed; the server keeps unacknowledged messages. */
const ACK_DELAY_MS = 250;
/** After this many bytes an acknowledgement is sent at once, because timers of a hidden tab are late. */
const ACK_AFTER_BYTES = 256 * 1024;
/** Streams leave this much of the buffer to other messages. */
const MAX_STREAM_BYTES = 256 * 1024;

/**
 * A reliable and a lossy data channel. While a channel is not open, small texts go over the signaling socket instead and
 * other messages wait. Reliable messages never use the lossy channel, and they keep their order on either path.
 */
export class DataChannels {
  #reliable: DataChannelLike;
  #lossy: DataChannelLike;
  readonly #deps: DataChannelsDeps;
  /** Resolves when the messages of an earlier connection have been repeated. */
  readonly #caughtUp: Promise<void>;
  #ackTimer: ReturnType<typeof setTimeout> | undefined;
  #unacknowledgedBytes = 0;
  readonly #onOpen = new Set<() => void>();

  constructor(deps: DataChannelsDeps) {
    this.#deps = deps;
    this.#reliable = this.#open("reliable");
    this.#lossy = this.#open("lossy");
    this.#caughtUp = deps.buffer.unacknowledged().length > 0 ? this.#opened() : Promise.resolve();
    deps.transport.ended.addEventListener("abort", () => clearTimeout(this.#ackTimer), { once: true });
  }

  get isEnded(): boolean {
    return this.#deps.transport.ended.aborted;
  }

  async sendLossy(packet: DataPacket): Promise<void> {
    const sealed = await this.#seal(packet);
    if (sealed.encrypted && this.#lossy.readyState !== "open") await this.#opened();
    if (this.#lossy.readyState === "open") this.#lossy.send(this.#encode({ ...sealed, kind: 1 }));
    else await this.#sendBySocket(sealed);
  }

  /** Resolves with false when the connection was replaced before the packet was sent. */
  async sendReliable(packet: DataPacket): Promise<boolean> {
    const { buffer, transport } = this.#deps;
    const sealed = await this.#seal(packet);
    await this.#caughtUp;
    await buffer.waitForSpace(transport.ended);
    if (this.#reliable.readyState !== "open" && !fitsSocket(sealed)) await this.#opened();
    if (this.isEnded) return false;
    if (this.#reliable.readyState !== "open") {
      await this.#sendBySocket(sealed);
      return true;
    }
    const bytes = this.#encode({ ...sealed, sequence: buffer.nextSeq });
    buffer.keep(bytes);
    this.#reliable.send(bytes);
    return true;
  }

  /** Resolves when a stream may send its next chunk. */
  waitForStreamSpace(): Promise<void> {
    return this.#deps.buffer.waitForSpace(this.#deps.transport.ended, MAX_STREAM_BYTES);
  }

  async #seal(packet: DataPacket): Promise<DataPacket> {
    const { encryption, fail } = this.#deps;
    const sealed = encryption ? await encryption.seal(packet) : packet;
    if (!sealed) throw fail("MISSING_KEY", "There is no key to encrypt with.");
    return sealed;
  }

  /** All packets are encoded here. */
  #encode(packet: DataPacket): Uint8Array<ArrayBuffer> {
    const bytes = encodePacket(packet);
    if (bytes.length > MAX_PACKET_BYTES) throw this.#tooLarge(MAX_PACKET_BYTES);
    return bytes;
  }

  async #sendBySocket(packet: DataPacket): Promise<void> {
    if (!packet.user) throw this.#deps.fail("NOT_CONNECTED", "No data channel is open. Send it again once it is.");
    if (!fitsSocket(packet)) throw this.#tooLarge(MAX_SOCKET_BYTES);
    const { to, user } = packet;
    await this.#deps.sendBySocket({
      ...(user.topic === undefined ? {} : { topic: user.topic }),
      ...(to === undefined ? {} : { to }),
      payload: textOf(user.payload ?? EMPTY) ?? "",
    });
  }

  #tooLarge(limit: number): Error {
    return this.#deps.fail("PAYLOAD_TOO_LARGE", `A data message may have at most ${limit} bytes right now.`);
  }

  #open(label: "reliable" | "lossy"): DataChannelLike {
    const { transport, buffer } = this.#deps;
    const options =
      label === "lossy"
        ? { ordered: false, maxRetransmits: 0, protocol: "packets" }
        : { protocol: `packets.${buffer.lastReceivedSeq}` };
    const channel = transport.addChannel(label, options);
    channel.binaryType = "arraybuffer";
    channel.addEventListener("message", ({ data }) => this.#receive(channel, label, data));
    if (label === "reliable")
      channel.addEventListener("open", () => {
        for (const bytes of buffer.unacknowledged()) channel.send(bytes);
        for (const opened of [...this.#onOpen]) opened();
      });
    // The server closes a channel whose reader is too slow; a new one may be opened.
    channel.addEventListener("close", () => {
      if (transport.ended.aborted) return;
      const timer = setTimeout(() => {
        if (label === "reliable") this.#reliable = this.#open(label);
        else this.#lossy = this.#open(label);
      }, REOPEN_MS);
      transport.ended.addEventListener("abort", () => clearTimeout(timer), { once: true });
    });
    return channel;
  }

  /** Resolves when the reliable channel is open, when the connection is closed, or after a timeout. */
  #opened(): Promise<void> {
    const { ended } = this.#deps.transport;
    return new Promise((resolve) => {
      const settle = () => {
        clearTimeout(timer);
        this.#onOpen.delete(settle);
        ended.removeEventListener("abort", settle);
        resolve();
      };
      const timer = setTimeout(settle, OPENING_MS);
      this.#onOpen.add(settle);
      ended.addEventListener("abort", settle);
      if (ended.aborted) settle();
    });
  }

  #receive(channel: DataChannelLike, label: "reliable" | "lossy", data: unknown): void {
    const { buffer, onPacket, encryption } = this.#deps;
    if (typeof data === "string") {
      const { heard } = JSON.parse(data) as { heard?: number };
      if (heard !== undefined) buffer.acknowledge(heard);
      return;
    }
    const bytes = new Uint8Array(data as ArrayBuffer);
    const packet = decodePacket(bytes);
    if (!packet) return;
    const { sequence = 0 } = packet;
    if (label === "reliable" && sequence > 0) {
      if (sequence <= buffer.lastReceivedSeq) return;
      buffer.lastReceivedSeq = sequence;
      this.#unacknowledgedBytes += bytes.length;
      this.#ackTimer ??= setTimeout(() => this.#acknowledge(channel), ACK_DELAY_MS);
      if (this.#unacknowledgedBytes > ACK_AFTER_BYTES) this.#acknowledge(channel);
    }
    if (encryption) encryption.open(packet, onPacket);
    else onPacket(packet);
  }

  #acknowledge(channel: DataChannelLike): void {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    this.#unacknowledgedBytes = 0;
    if (channel.readyState === "open") channel.send(JSON.stringify({ heard: this.#deps.buffer.lastReceivedSeq }));
  }
}

const EMPTY = new Uint8Array();

function fitsSocket({ user }: DataPacket): boolean {
  if (!user) return false;
  const { payload = EMPTY } = user;
  return payload.length <= MAX_SOCKET_BYTES && textOf(payload) !== null;
}

/** Null for bytes that are not UTF-8. */
export function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
