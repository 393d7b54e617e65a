/**
 * The messages for one client's reliable channel, numbered and kept until the client acknowledges them: messages that were under
 * way on a lost connection are sent again on the next.
 */
import { DATA_NUMBERED, type DataDropReason } from "../../protocol/signaling.ts";
import type { DataDialect, DataMessage } from "./data-message.ts";
import { numbered } from "./livekit-data-packet.ts";

/** The participant that sent a message, as its readers use it. */
export interface DataSender {
  readerBehind(reader: string, bytes: number): void;
  /** Called with the number of the sender's messages that the reader does not get. */
  readerLost(reader: string, messages: number, reason?: DataDropReason): void;
}

/** The memory of a kept message besides its own bytes. Without it, messages of a few bytes could wait by the hundred thousand. */
const MESSAGE_OVERHEAD_BYTES = 256;
const costOf = ({ size }: DataMessage): number => size + MESSAGE_OVERHEAD_BYTES;

/** `seq` is 0 until the message is sent for the first time; `sender` is null for a backend. */
type Delivery = { message: DataMessage; sender: DataSender | null; seq: number };

/** The last number that a client has received, from its channel's protocol; null when the client does not acknowledge. */
export function lastAcknowledged(protocol: string): number | null {
  const [, seq] = DATA_NUMBERED.exec(protocol) ?? [];
  return seq === undefined ? null : Number(seq);
}

export class ReliableQueue {
  #isOn = false;
  #lastSeq = 0;
  /** Messages that were sent on an earlier channel and perhaps lost with it. */
  #repeated: Delivery[] = [];
  #waiting: Delivery[] = [];
  /** Parts of data streams, which other messages overtake on their way to a client that acknowledges. */
  #waitingParts: Delivery[] = [];
  /** Messages that were sent and not yet acknowledged. */
  #unacknowledged: Delivery[] = [];
  #bytes = 0;

  /** Is true when the client of the last reliable channel acknowledges messages. */
  get isAcknowledged(): boolean {
    return this.#isOn;
  }

  /** The memory of all waiting and unacknowledged messages. */
  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return !this.hasNext && this.#unacknowledged.length === 0;
  }

  get hasNext(): boolean {
    return this.#repeated.length > 0 || this.#waiting.length > 0 || this.#waitingParts.length > 0;
  }

  /** Continues on another reliable channel of a client that has received everything up to `seq`, or does not acknowledge. */
  channelOpened(seq: number | null): void {
    this.#isOn = seq !== null;
    if (seq !== null) {
      this.acknowledge(seq);
      // A node that was restarted continues with the number that the client has.
      this.#lastSeq = Math.max(this.#lastSeq, seq);
      this.#repeated = [...this.#unacknowledged, ...this.#repeated];
    } else this.#forget(this.#unacknowledged);
    this.#unacknowledged = [];
  }

  /** LiveKit's clients, which do not acknowledge, discard a packet whose number is below that of an earlier one of its sender. */
  add(message: DataMessage, sender: DataSender | null): void {
    const mayBeOvertaken = message.isStreamPart && this.#isOn;
    (mayBeOvertaken ? this.#waitingParts : this.#waiting).push({ message, sender, seq: 0 });
    this.#bytes += costOf(message);
  }

  /** Takes the next message in the form in which it is sent; null when none is left, or the dialect cannot express this one. */
  take(dialect: DataDialect, onUnreadable: (sender: DataSender | null) => void): string | Buffer | null {
    const next = this.#repeated.shift() ?? this.#waiting.shift() ?? this.#waitingParts.shift();
    if (!next) return null;
    const text = next.message.in(dialect);
    if (!this.#isOn || text === null) {
      this.#bytes -= costOf(next.message);
      if (text === null) onUnreadable(next.sender);
      return text;
    }
    if (next.seq === 0) next.seq = ++this.#lastSeq;
    this.#unacknowledged.push(next);
    // The message is serialized once for all clients, so each client's number is inserted here.
    return typeof text === "string" ? `{"seq":${next.seq},${text.slice(1)}` : numbered(text, next.seq);
  }

  acknowledge(seq: number): void {
    for (const list of [this.#unacknowledged, this.#repeated]) {
      const first = list.findIndex((one) => one.seq > seq);
      this.#forget(list.splice(0, first === -1 ? list.length : first));
    }
  }

  /** Discards all messages, and returns how many of each sender there were. */
  clear(): Map<DataSender | null, number> {
    const forgotten = new Map<DataSender | null, number>();
    for (const list of [this.#repeated, this.#waiting, this.#waitingParts, this.#unacknowledged])
      for (const { sender } of list) forgotten.set(sender, (forgotten.get(sender) ?? 0) + 1);
    this.#repeated = [];
    this.#waiting = [];
    this.#waitingParts = [];
    this.#unacknowledged = [];
    this.#bytes = 0;
    return forgotten;
  }

  #forget(deliveries: readonly Delivery[]): void {
    for (const { message } of deliveries) this.#bytes -= costOf(message);
  }
}
