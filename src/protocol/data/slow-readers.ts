/** The server reports a reader for which more than a megabyte waits, and reports it again below this size. */
const CAUGHT_UP_BYTES = 256 * 1024;
/** After this time, senders no longer wait for a reader that takes nothing, and the server drops what the reader does not take. */
const PATIENCE_MS = 30_000;

/** The participants who have not yet received all reliable data, as reported by the server. New messages wait for them. */
export class SlowReaders {
  readonly #since = new Map<string, number>();
  readonly #waiting = new Set<() => void>();

  /** Handles the push `data.behind`. For a participant that has left, 0 bytes are reported. */
  update(identity: string, bytes: number): void {
    if (bytes > CAUGHT_UP_BYTES) this.#since.set(identity, Date.now());
    else if (this.#since.delete(identity)) this.#wake();
  }

  isBehind(identity: string): boolean {
    return this.#since.has(identity);
  }

  clear(): void {
    this.#since.clear();
    this.#wake();
  }

  /** Resolves when no reader of the message is behind. */
  async wait(to: readonly string[] | undefined): Promise<void> {
    for (;;) {
      const since = [...this.#since].filter(([identity]) => to?.includes(identity) ?? true).map(([, atMs]) => atMs);
      const leftMs = Math.max(0, ...since) + PATIENCE_MS - Date.now();
      if (since.length === 0 || leftMs <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#waiting.add(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }
}
