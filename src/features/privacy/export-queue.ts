import type { ExportRow } from "./privacy.table.ts";

/** Each export uses the disk as fast as it can, so more of them at the same time would slow down everything else. */
const MAX_RUNNING = 2;

type Waiting = { row: ExportRow; done: () => void };

/**
 * Runs the exports of a project one after the other, and those of different projects in parallel: a project that
 * requests hundreds delays only its own exports. `make` does not throw.
 */
export class ExportQueue {
  readonly #make: (row: ExportRow) => Promise<void>;
  /** Exports by project; the project that has waited longest is first. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #running = new Set<string>();
  readonly #unfinished = new Map<string, Promise<void>>();

  constructor(make: (row: ExportRow) => Promise<void>) {
    this.#make = make;
  }

  get ids(): string[] {
    return [...this.#unfinished.keys()];
  }

  add(row: ExportRow): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#unfinished.set(row.id, promise);
    const done = () => {
      this.#unfinished.delete(row.id);
      resolve();
    };
    this.#setWaiting(row.projectId, [...(this.#waiting.get(row.projectId) ?? []), { row, done }]);
    this.#next();
  }

  /** Removes an export from the queue, or waits for its end if it is running. */
  async cancel({ id, projectId }: ExportRow): Promise<void> {
    const waiting = this.#waiting.get(projectId) ?? [];
    const found = waiting.find(({ row }) => row.id === id);
    if (!found) return this.#unfinished.get(id);
    this.#setWaiting(
      projectId,
      waiting.filter((one) => one !== found),
    );
    found.done();
  }

  async settled(): Promise<void> {
    await Promise.all(this.#unfinished.values());
  }

  #setWaiting(projectId: string, waiting: Waiting[]): void {
    if (waiting.length === 0) this.#waiting.delete(projectId);
    else this.#waiting.set(projectId, waiting);
  }

  #next(): void {
    for (const [projectId, waiting] of this.#waiting) {
      if (this.#running.size >= MAX_RUNNING) return;
      const [first, ...others] = waiting;
      if (!first || this.#running.has(projectId)) continue;
      // The project's next export waits behind those of all other projects.
      this.#waiting.delete(projectId);
      this.#setWaiting(projectId, others);
      this.#running.add(projectId);
      void this.#make(first.row).finally(() => {
        this.#running.delete(projectId);
        first.done();
        this.#next();
      });
    }
  }
}
