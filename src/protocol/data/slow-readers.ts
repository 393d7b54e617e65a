/** The server reports a reader that has more than a megabyte to receive, and again below this. */
const CAUGHT_UP_BYTES = 256 * 1024;
/** A reader that takes nothing for this long is not waited for any more; the server drops what it does not take. */
const PATIENCE_MS = 30_000;

/** The participants that have not received all reliable data yet, as the server reports them: new messages wait for them. */
export class SlowReaders {
  readonly #since = new Map<string, number>();
  readonly #waiting = new Set<() => void>();

  /** Takes the push `data.behind`; 0 bytes are also those of a participant that has left. */
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
