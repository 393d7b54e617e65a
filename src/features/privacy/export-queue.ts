import type { ExportRow } from "./store/person.table.ts";

/** Each reads and writes as fast as the disk can: more at once would only take it from everything else. */
const AT_ONCE = 2;

type Waiting = { row: ExportRow; done: () => void };

/**
 * One export of a project after the other, and of all projects a few at a time: whoever asks for hundreds waits behind
 * nobody but themselves. `make` does not throw.
 */
export class ExportQueue {
  readonly #make: (row: ExportRow) => Promise<void>;
  /** By project; the one that waits for the longest time comes first. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #running = new Set<string>();
  readonly #underWay = new Map<string, Promise<void>>();

  constructor(make: (row: ExportRow) => Promise<void>) {
    this.#make = make;
  }

  get ids(): string[] {
    return [...this.#underWay.keys()];
  }

  add(row: ExportRow): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#underWay.set(row.id, promise);
    const done = () => {
      this.#underWay.delete(row.id);
      resolve();
    };
    const line = this.#waiting.get(row.projectId) ?? [];
    line.push({ row, done });
    this.#waiting.set(row.projectId, line);
    this.#next();
  }

  /** Resolves when the export is not being made, or not any more; one that waits gives its place up. */
  async leave({ id, projectId }: ExportRow): Promise<void> {
    const line = this.#waiting.get(projectId) ?? [];
    const found = line.find(({ row }) => row.id === id);
    if (!found) return this.#underWay.get(id);
    this.#keep(
      projectId,
      line.filter((one) => one !== found),
    );
    found.done();
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  #keep(projectId: string, line: Waiting[]): void {
    if (line.length === 0) this.#waiting.delete(projectId);
    else this.#waiting.set(projectId, line);
  }

  #next(): void {
    for (const [projectId, line] of this.#waiting) {
      if (this.#running.size >= AT_ONCE) return;
      const [first, ...others] = line;
      if (!first || this.#running.has(projectId)) continue;
      // Behind all other projects for its next one.
      this.#waiting.delete(projectId);
      this.#keep(projectId, others);
      this.#running.add(projectId);
      void this.#make(first.row).finally(() => {
        this.#running.delete(projectId);
        first.done();
        this.#next();
      });
    }
  }
}
