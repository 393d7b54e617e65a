/**
 * The messages for one client's reliable channel, numbered and kept until the client acknowledges them: messages that were under
 * way on a lost connection are sent again on the next.
 */
import { DATA_NUMBERED } from "../../protocol/signaling.ts";

export type Delivery = { text: string | Buffer; size: number; seq: number };

/** The last number that a client has received, from its channel's protocol; null when the client does not acknowledge. */
export function lastAcknowledged(protocol: string): number | null {
  const [, seq] = DATA_NUMBERED.exec(protocol) ?? [];
  return seq === undefined ? null : Number(seq);
}

export class ReliableQueue {
  #isOn = false;
  #lastSeq = 0;
  #waiting: Delivery[] = [];
  /** Sent and not yet acknowledged. */
  #unacknowledged: Delivery[] = [];
  #bytes = 0;

  /** Is true when the client of the last reliable channel acknowledges messages. */
  get isAcknowledged(): boolean {
    return this.#isOn;
  }

  /** Bytes of all waiting and unacknowledged messages. */
  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#unacknowledged.length === 0;
  }

  get next(): Delivery | undefined {
    return this.#waiting[0];
  }

  /** Continues on another reliable channel of a client that has received everything up to `seq`, or does not acknowledge. */
  channelOpened(seq: number | null): void {
    this.#isOn = seq !== null;
    if (seq === null) {
      this.#forget(this.#unacknowledged);
      this.#unacknowledged = [];
      return;
    }
    this.acknowledge(seq);
    // A restarted node continues with the client's number.
    this.#lastSeq = Math.max(this.#lastSeq, seq);
    this.#waiting = [...this.#unacknowledged, ...this.#waiting];
    this.#unacknowledged = [];
  }

  add(text: string | Buffer, size: number): void {
    this.#lastSeq += 1;
    this.#waiting.push({ text, size, seq: this.#lastSeq });
    this.#bytes += size;
  }

  /** Takes the next message as it is sent on the channel. */
  take(): string | Buffer | null {
    const next = this.#waiting.shift();
    if (!next) return null;
    const { text, seq } = next;
    if (!this.#isOn || typeof text !== "string") {
      this.#bytes -= next.size;
      return text;
    }
    this.#unacknowledged.push(next);
    // The text is serialized once for all clients, so each client's number is inserted here.
    return `{"seq":${seq},${text.slice(1)}`;
  }

  acknowledge(seq: number): void {
    const first = this.#unacknowledged.findIndex((one) => one.seq > seq);
    this.#forget(this.#unacknowledged.splice(0, first === -1 ? this.#unacknowledged.length : first));
  }

  clear(): void {
    this.#waiting = [];
    this.#unacknowledged = [];
    this.#bytes = 0;
  }

  #forget(deliveries: readonly Delivery[]): void {
    for (const { size } of deliveries) this.#bytes -= size;
  }
}
