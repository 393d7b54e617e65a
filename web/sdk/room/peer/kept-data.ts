import { uuid } from "../../uuid.ts";

export type DataFrame = { topic?: string; to?: string[]; payload: string };
/** `stream` and `seq`: the server passes on what it has had already no second time. */
export type NumberedFrame = DataFrame & { stream: string; seq: number };

/** Where reliable data leaves. */
export type DataCarrier = { carry(frame: DataFrame): Promise<void> };

/** Longer than it takes to notice that a connection is silent and to replace it. */
const KEPT_MS = 30_000;
/** Fewer than the server takes of one sender in a second. */
const MOST_MESSAGES = 400;
const MOST_CHARACTERS = 512 * 1024;

/**
 * The reliable data of one session, on whichever connections: what was handed to a channel and may not have arrived, so that
 * the next channel carries it again, and the last that came. The server says how far it is; of one that does not, nobody can
 * tell what arrived, and what was sent lately is kept for a while.
 */
export class KeptData {
  /** Of what the server has sent. */
  lastSeq = 0;
  /** When the last message has left. */
  last: Promise<void> = Promise.resolve();
  /** Messages that have not left. */
  queued = 0;
  /** The channels of the current connection. */
  carrier: DataCarrier | null = null;
  readonly #stream = uuid();
  #seq = 0;
  #characters = 0;
  #isTold = false;
  #isLate = false;
  readonly #kept: { text: string; seq: number; atMs: number }[] = [];
  readonly #waiting = new Set<() => void>();

  /** The frame as it goes onto a channel. */
  number(frame: DataFrame): NumberedFrame {
    this.#seq += 1;
    return { ...frame, stream: this.#stream, seq: this.#seq };
  }

  keep(text: string, seq: number): void {
    this.#kept.push({ text, seq, atMs: Date.now() });
    this.#characters += text.length;
    while (!this.#isTold && this.#isOver(MOST_MESSAGES + 1)) this.#forgetOldest();
  }

  /** The server has everything up to there. */
  heard(seq: number): void {
    this.#isTold = true;
    while (this.#kept[0] && this.#kept[0].seq <= seq) this.#forgetOldest();
    if (this.#isOver()) return;
    for (const go of this.#waiting) go();
  }

  /** Some had to wait, and others wait behind them. */
  get isLate(): boolean {
    return this.#isLate;
  }

  /** Resolves when more may be handed over and all of it kept, or there is another connection to hand it to. */
  async room(ended: AbortSignal): Promise<void> {
    this.#isLate &&= this.queued > 1;
    if (!this.#isTold || !this.#isOver()) return;
    this.#isLate = true;
    await new Promise<void>((resolve) => {
      const go = () => {
        this.#waiting.delete(go);
        ended.removeEventListener("abort", go);
        resolve();
      };
      this.#waiting.add(go);
      ended.addEventListener("abort", go);
    });
  }

  /** What the server may not have, oldest first. */
  unheard(): string[] {
    const fromMs = Date.now() - KEPT_MS;
    while (!this.#isTold && this.#kept[0] && this.#kept[0].atMs < fromMs) this.#forgetOldest();
    return this.#kept.map(({ text }) => text);
  }

  #isOver(messages = MOST_MESSAGES): boolean {
    return this.#kept.length >= messages || this.#characters > MOST_CHARACTERS;
  }

  #forgetOldest(): void {
    this.#characters -= this.#kept.shift()?.text.length ?? 0;
  }
}
