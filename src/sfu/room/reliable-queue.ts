/**
 * What one client gets on its reliable channels, numbered, until the client says that it has it: whatever was under way on a
 * connection that died goes again on the next, from where the client was.
 */
import { DATA_NUMBERED } from "../../protocol/signaling.ts";

export type Delivery = { text: string | Buffer; size: number; seq: number };

/** Null unless its client numbers what it gets; otherwise the last that it has had. */
export function lastAcknowledged(protocol: string): number | null {
  const [, seq] = DATA_NUMBERED.exec(protocol) ?? [];
  return seq === undefined ? null : Number(seq);
}

export class ReliableQueue {
  #isOn = false;
  #lastSeq = 0;
  #waiting: Delivery[] = [];
  /** Handed over, and nobody has said that it arrived. */
  #unacknowledged: Delivery[] = [];
  #bytes = 0;

  /** Whether the client of the last reliable channel says what it has. */
  get isAcknowledged(): boolean {
    return this.#isOn;
  }

  /** Of all that waits and all that is under way. */
  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#unacknowledged.length === 0;
  }

  get next(): Delivery | undefined {
    return this.#waiting[0];
  }

  /** Another reliable channel, of a client that has had everything up to `seq`, or does not say. */
  channelOpened(seq: number | null): void {
    this.#isOn = seq !== null;
    if (seq === null) {
      this.#forget(this.#unacknowledged);
      this.#unacknowledged = [];
      return;
    }
    this.acknowledge(seq);
    // A node that was started again counts on from there.
    this.#lastSeq = Math.max(this.#lastSeq, seq);
    this.#waiting = [...this.#unacknowledged, ...this.#waiting];
    this.#unacknowledged = [];
  }

  add(text: string | Buffer, size: number): void {
    this.#lastSeq += 1;
    this.#waiting.push({ text, size, seq: this.#lastSeq });
    this.#bytes += size;
  }

  /** The next one, as it goes onto the channel. */
  take(): string | Buffer | null {
    const next = this.#waiting.shift();
    if (!next) return null;
    const { text, seq } = next;
    if (!this.#isOn || typeof text !== "string") {
      this.#bytes -= next.size;
      return text;
    }
    this.#unacknowledged.push(next);
    // Every client has numbers of its own for a text that is written once.
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
