/** Of the time that fanning out took before. */
const SHARE = 1 / 4;
const MOST_MS = 8;
/** Less is over before a timer is. */
const LEAST_MS = 1;

/**
 * When an edge takes what the leader says. Writing to a socket costs as much as some ten messages do within one write: so
 * once fanning out takes long, what comes waits a moment for what comes right behind it, and both go out together. All of
 * it waits, in its order, and what is quick to fan out does not wait at all.
 */
export class Gathering {
  readonly #waiting: string[] = [];
  #tookMs = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly take: (text: string) => void,
    private readonly clock: () => number = () => performance.now(),
  ) {}

  add(text: string): void {
    this.#waiting.push(text);
    if (this.#timer !== null) return;
    const waitMs = Math.min(this.#tookMs * SHARE, MOST_MS);
    if (waitMs < LEAST_MS) this.takeAll();
    else this.#timer = setTimeout(() => this.takeAll(), waitMs);
  }

  /** What waits is taken now. */
  takeAll(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const startedAt = this.clock();
    for (const text of this.#waiting.splice(0)) this.take(text);
    // The runtime writes to the sockets at the end of a turn, which after a timer is the next one.
    setImmediate(() => setImmediate(() => this.#over(startedAt)));
  }

  #over(startedAt: number): void {
    this.#tookMs = this.clock() - startedAt;
  }
}
