/**
 * Ids whose credentials no longer count, until they would have run out by themselves. Everybody who leaves is one of them
 * for hours: those that are over stand in front, and no more than they are looked at.
 */
export class EndedIds {
  readonly #untilMs = new Map<string, number>();

  has(id: string): boolean {
    return this.#untilMs.has(id);
  }

  add(id: string, untilMs: number): void {
    this.#untilMs.delete(id);
    this.#untilMs.set(id, untilMs);
  }

  prune(nowMs: number): void {
    for (const [id, untilMs] of this.#untilMs) {
      if (untilMs > nowMs) return;
      this.#untilMs.delete(id);
    }
  }

  [Symbol.iterator](): IterableIterator<[string, number]> {
    return this.#untilMs.entries();
  }
}
