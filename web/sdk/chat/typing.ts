const REPEAT_MS = 3_000;
const IDLE_MS = 5_000;

/** Turns key strokes into few frames: one `typing.start` in three seconds, `typing.stop` after five without a key. */
export class TypingThrottle {
  #sentAt = 0;
  #idle: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly send: (type: "typing.start" | "typing.stop") => void) {}

  start(): void {
    const now = Date.now();
    if (now - this.#sentAt >= REPEAT_MS) {
      this.#sentAt = now;
      this.send("typing.start");
    }
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.stop(), IDLE_MS);
  }

  stop(): void {
    clearTimeout(this.#idle);
    if (this.#sentAt === 0) return;
    this.#sentAt = 0;
    this.send("typing.stop");
  }

  close(): void {
    clearTimeout(this.#idle);
  }
}
