/** The reliable messages of one session across its connections: those sent, and the number of the last one received. */

/** For a sender that is over its budget, the server keeps twice as many. */
const MAX_MESSAGES = 400;
const MAX_BYTES = 512 * 1024;

type Kept = { seq: number; bytes: Uint8Array<ArrayBuffer> };

/**
 * The messages that were sent but not acknowledged, which the next channel sends again, and the number of the last
 * received message.
 */
export class ReliableBuffer {
  /** The sequence number of the last received message. */
  lastReceivedSeq = 0;
  /** Resolves when the last queued message has been sent. */
  lastSend: Promise<void> = Promise.resolve();
  #seq = 0;
  #bytes = 0;
  readonly #kept: Kept[] = [];
  readonly #waiting = new Set<() => void>();

  /** The number of the next message to keep. */
  get nextSeq(): number {
    return this.#seq + 1;
  }

  keep(bytes: Uint8Array<ArrayBuffer>): void {
    this.#seq += 1;
    this.#kept.push({ seq: this.#seq, bytes });
    this.#bytes += bytes.length;
  }

  /** Drops the messages that the server has received, up to and including `seq`. */
  acknowledge(seq: number): void {
    while (this.#kept[0] && this.#kept[0].seq <= seq) this.#bytes -= this.#kept.shift()?.bytes.length ?? 0;
    for (const proceed of [...this.#waiting]) proceed();
  }

  /** The messages that the server may not have received, oldest first. */
  unacknowledged(): Uint8Array<ArrayBuffer>[] {
    return this.#kept.map(({ bytes }) => bytes);
  }

  /** Resolves when less than `maxBytes` are unacknowledged, or when `ended` aborts. */
  async waitForSpace(ended: AbortSignal, maxBytes = MAX_BYTES): Promise<void> {
    while (!ended.aborted && (this.#kept.length >= MAX_MESSAGES || this.#bytes > maxBytes)) {
      await new Promise<void>((resolve) => {
        const proceed = () => {
          this.#waiting.delete(proceed);
          ended.removeEventListener("abort", proceed);
          resolve();
        };
        this.#waiting.add(proceed);
        ended.addEventListener("abort", proceed);
      });
    }
  }
}
