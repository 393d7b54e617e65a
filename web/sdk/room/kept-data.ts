import { uuid } from "../uuid.ts";

export type DataFrame = { topic?: string; to?: string[]; payload: string };
/** `stream` and `seq`: the server passes on what it has had already no second time. */
export type NumberedFrame = DataFrame & { stream: string; seq: number };

/** Longer than it takes to notice that a connection is silent and to replace it. */
const KEPT_MS = 30_000;
/** Fewer than the server takes of one sender in a second. */
const MOST_MESSAGES = 400;
const MOST_CHARACTERS = 512 * 1024;

/**
 * What has lately been handed to a channel that is to lose nothing. Nobody tells what of it arrived when its connection is
 * replaced, so the next channel carries all of it again.
 */
export class KeptData {
  readonly #stream = uuid();
  #seq = 0;
  #characters = 0;
  readonly #kept: { text: string; atMs: number }[] = [];

  /** The frame as it goes onto a channel. */
  number(frame: DataFrame): NumberedFrame {
    this.#seq += 1;
    return { ...frame, stream: this.#stream, seq: this.#seq };
  }

  keep(text: string): void {
    this.#kept.push({ text, atMs: Date.now() });
    this.#characters += text.length;
    while (this.#kept.length > MOST_MESSAGES || this.#characters > MOST_CHARACTERS) this.#forgetOldest();
  }

  /** Oldest first. */
  lately(): string[] {
    const fromMs = Date.now() - KEPT_MS;
    while (this.#kept[0] && this.#kept[0].atMs < fromMs) this.#forgetOldest();
    return this.#kept.map(({ text }) => text);
  }

  #forgetOldest(): void {
    this.#characters -= this.#kept.shift()?.text.length ?? 0;
  }
}
