import { uuid } from "../../uuid.ts";

export type DataFrame = { topic?: string; to?: string[]; payload: string };
/** `stream` and `seq` let the server discard duplicates. */
export type NumberedFrame = DataFrame & { stream: string; seq: number };

export type DataSender = { sendReliable(frame: DataFrame): Promise<void> };

/** Longer than it takes to detect a silent connection and replace it. */
const KEEP_MS = 30_000;
/** Less than the server's limit for one sender in a second. */
const MAX_MESSAGES = 400;
const MAX_CHARACTERS = 512 * 1024;

/**
 * The reliable data of one session, across its connections: the messages that were sent but not acknowledged, which the
 * next channel sends again, and the number of the last received message. An older server sends no acknowledgements; for
 * it, messages are kept for a limited time.
 */
export class ReliableDataBuffer {
  /** The sequence number of the last received message. */
  lastReceivedSeq = 0;
  /** Resolves when the last queued message has been sent. */
  lastSend: Promise<void> = Promise.resolve();
  /** The number of messages that have not been sent. */
  queued = 0;
  /** The channels of the current connection. */
  sender: DataSender | null = null;
  readonly #stream = uuid();
  #seq = 0;
  #characters = 0;
  #serverAcknowledges = false;
  #hasBacklog = false;
  readonly #kept: { text: string; seq: number; atMs: number }[] = [];
  readonly #waiting = new Set<() => void>();

  /** Assigns the next sequence number to a frame. */
  number(frame: DataFrame): NumberedFrame {
    this.#seq += 1;
    return { ...frame, stream: this.#stream, seq: this.#seq };
  }

  keep(text: string, seq: number): void {
    this.#kept.push({ text, seq, atMs: Date.now() });
    this.#characters += text.length;
    while (!this.#serverAcknowledges && this.#isFull(MAX_MESSAGES + 1)) this.#dropOldest();
  }

  /** Drops the messages that the server has received, up to and including `seq`. */
  acknowledge(seq: number): void {
    this.#serverAcknowledges = true;
    while (this.#kept[0] && this.#kept[0].seq <= seq) this.#dropOldest();
    if (this.#isFull()) return;
    for (const proceed of this.#waiting) proceed();
  }

  /** Whether messages had to wait and others are still queued behind them. */
  get hasBacklog(): boolean {
    return this.#hasBacklog;
  }

  /** Resolves when the buffer has space for another message, or when the connection ends. */
  async waitForSpace(ended: AbortSignal): Promise<void> {
    this.#hasBacklog &&= this.queued > 1;
    if (!this.#serverAcknowledges || !this.#isFull()) return;
    this.#hasBacklog = true;
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

  /** The messages that the server may not have received, oldest first. */
  unacknowledged(): string[] {
    const fromMs = Date.now() - KEEP_MS;
    while (!this.#serverAcknowledges && this.#kept[0] && this.#kept[0].atMs < fromMs) this.#dropOldest();
    return this.#kept.map(({ text }) => text);
  }

  #isFull(messages = MAX_MESSAGES): boolean {
    return this.#kept.length >= messages || this.#characters > MAX_CHARACTERS;
  }

  #dropOldest(): void {
    this.#characters -= this.#kept.shift()?.text.length ?? 0;
  }
}
