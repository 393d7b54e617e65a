import type { DataChannelDelivery } from "../../../../src/protocol/signaling.ts";
import { pause } from "../../backoff.ts";
import { StoaError } from "../../errors.ts";
import type { RtcRequest } from "../../protocol.ts";
import type { DataFrame, DataSender, ReliableDataBuffer } from "./reliable-data-buffer.ts";
import type { Transport } from "./transport.ts";

/** Options for `room.sendData`. */
export type DataOptions = {
  /** Whether messages are retransmitted and kept in order; true by default. */
  reliable?: boolean;
  /** The message's topic, passed on to the receivers. */
  topic?: string;
  /** The identities of the receivers; all participants by default. */
  to?: string[];
};

/** A received data message; `from` is the sender's identity, or null for the server. */
export type DataMessage = { from: string | null; topic?: string; payload: string };

/** The sequence number of the last message that the other side has received. */
type Acknowledgement = { heard: number };

const REOPEN_MS = 500;
const MAX_FRAME_BYTES = 65_536;
const MAX_SOCKET_BYTES = 8_192;
/** How long new messages wait for the ones of an earlier channel to be sent again; the channel may never open. */
const CATCH_UP_MS = 15_000;
/** A backlog is sent no faster than the server's rate limit for one sender. */
const CATCH_UP_INTERVAL_MS = 4;
/** How long an acknowledgement is delayed; the server keeps unacknowledged messages. */
const ACK_DELAY_MS = 250;
/** How much may be received before an acknowledgement is sent at once, because timers of a hidden tab are late. */
const ACK_AFTER_CHARACTERS = 256 * 1024;

/**
 * A reliable and a lossy data channel. While a channel is not open, small messages go over the signaling socket instead.
 * Reliable messages never use the lossy channel, and they keep their order on either path.
 */
export class DataChannels implements DataSender {
  #reliable: RTCDataChannel;
  #lossy: RTCDataChannel;
  /** Resolves when the messages of an earlier connection have been sent again. */
  readonly #caughtUp: Promise<void>;
  #ackTimer: ReturnType<typeof setTimeout> | undefined;
  #unacknowledgedCharacters = 0;

  constructor(
    readonly transport: Transport,
    readonly request: RtcRequest,
    /** The reliable data of the session, which outlives this connection. */
    readonly buffer: ReliableDataBuffer,
    readonly onMessage: (message: DataMessage) => void,
  ) {
    buffer.sender = this;
    this.#reliable = this.#open("reliable");
    this.#lossy = this.#open("lossy");
    this.#caughtUp = buffer.unacknowledged().length > 0 ? this.#opened(this.#reliable) : Promise.resolve();
    transport.ended.addEventListener("abort", () => clearTimeout(this.#ackTimer), { once: true });
  }

  /** Resolves when the channel is open, or after a timeout. */
  #opened(channel: RTCDataChannel): Promise<void> {
    const late = new AbortController();
    const settled = () => late.abort();
    channel.addEventListener("open", settled, { once: true });
    this.transport.ended.addEventListener("abort", settled, { once: true });
    return pause(CATCH_UP_MS, late.signal);
  }

  async send(payload: string, { reliable = true, topic, to }: DataOptions): Promise<void> {
    const frame = { ...(topic === undefined ? {} : { topic }), ...(to === undefined ? {} : { to }), payload };
    if (!reliable) return this.#transmit(this.#lossy, frame, null);
    const { buffer } = this;
    buffer.queued += 1;
    const left = buffer.lastSend.then(() => buffer.sender?.sendReliable(frame));
    buffer.lastSend = left
      .catch(() => {})
      .then(() => {
        buffer.queued -= 1;
      });
    return left;
  }

  async sendReliable(frame: DataFrame): Promise<void> {
    const { buffer, transport } = this;
    await this.#caughtUp;
    await buffer.waitForSpace(transport.ended);
    if (buffer.hasBacklog) await pause(CATCH_UP_INTERVAL_MS, transport.ended);
    // The connection may have been replaced while this waited.
    if (buffer.sender && buffer.sender !== this) return buffer.sender.sendReliable(frame);
    return this.#transmit(this.#reliable, frame, buffer);
  }

  async #transmit(channel: RTCDataChannel, frame: DataFrame, buffer: ReliableDataBuffer | null): Promise<void> {
    if (channel.readyState === "open") {
      const numbered = buffer?.number(frame);
      const text = JSON.stringify(numbered ?? frame);
      if (new TextEncoder().encode(text).length > MAX_FRAME_BYTES) throw tooLarge(MAX_FRAME_BYTES);
      channel.send(text);
      if (numbered) buffer?.keep(text, numbered.seq);
      return;
    }
    if (new TextEncoder().encode(frame.payload).length > MAX_SOCKET_BYTES) throw tooLarge(MAX_SOCKET_BYTES);
    await this.request("data.send", frame);
  }

  #open(label: "reliable" | "lossy"): RTCDataChannel {
    const { transport, buffer } = this;
    const options =
      label === "lossy" ? { ordered: false, maxRetransmits: 0 } : { protocol: `numbered.${buffer.lastReceivedSeq}` };
    const channel = transport.addChannel(label, options);
    channel.addEventListener("message", ({ data }) => this.#receive(channel, JSON.parse(String(data))));
    if (label === "reliable")
      channel.addEventListener("open", () => {
        for (const text of buffer.unacknowledged()) channel.send(text);
      });
    // The server closes a channel whose reader is too slow; a new one may be opened.
    channel.addEventListener("close", async () => {
      await pause(REOPEN_MS, transport.ended);
      if (transport.closed) return;
      if (label === "reliable") this.#reliable = this.#open(label);
      else this.#lossy = this.#open(label);
    });
    return channel;
  }

  #receive(channel: RTCDataChannel, frame: DataChannelDelivery | Acknowledgement): void {
    if ("heard" in frame) {
      this.buffer.acknowledge(frame.heard);
      return;
    }
    const { seq, ...message } = frame;
    if (seq !== undefined) {
      if (seq <= this.buffer.lastReceivedSeq) return;
      this.buffer.lastReceivedSeq = seq;
      this.#unacknowledgedCharacters += frame.payload.length;
      this.#ackTimer ??= setTimeout(() => this.#acknowledge(channel), ACK_DELAY_MS);
      if (this.#unacknowledgedCharacters > ACK_AFTER_CHARACTERS) this.#acknowledge(channel);
    }
    this.onMessage(message);
  }

  #acknowledge(channel: RTCDataChannel): void {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    this.#unacknowledgedCharacters = 0;
    if (channel.readyState === "open") channel.send(JSON.stringify({ heard: this.buffer.lastReceivedSeq }));
  }
}

function tooLarge(limit: number): StoaError {
  return new StoaError("PAYLOAD_TOO_LARGE", "invalid", `A data message may have at most ${limit} bytes right now.`);
}
