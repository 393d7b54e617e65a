/** A source of jobs: a socket with frames, an IP address with requests, a task with steps. */
type JobSource = {
  /** Runs the source's next job; false when none is left. */
  runNext(): boolean;
};

type FairQueueOptions = {
  /** The time that all jobs of the queue together get in one event-loop tick. */
  sliceMs: number;
  burst?: number;
  /**
   * Each job that starts asynchronous work runs in its own callback: its promises then continue before the next job
   * starts, and count towards the time slice.
   */
  startsAsyncWork?: boolean;
} & EventLoop;

/** The functions of the event loop that a test replaces. */
export type EventLoop = {
  clock?: () => number;
  nextTick?: (run: () => void) => unknown;
};

/** The maximum number of asynchronous jobs that start in a tick; most ticks end earlier because of the time slice. */
const MAX_ASYNC_JOBS_PER_TICK = 64;

/**
 * Shares the main thread between sources of jobs. The sources take turns, and in each tick of the event loop all of them together
 * get one time slice. A source with thousands of jobs therefore delays neither the other sources nor the rest of the server.
 */
export class FairQueue {
  readonly #sources = new Set<JobSource>();
  readonly #sliceMs: number;
  readonly #burst: number;
  readonly #startsAsyncWork: boolean;
  readonly #clock: () => number;
  readonly #nextTick: (run: () => void) => unknown;
  #tick = 0;
  #isScheduled = false;
  #sliceEndsAt: number | null = null;
  #atOnceEndsAt: number | null = null;

  constructor(options: FairQueueOptions) {
    this.#sliceMs = options.sliceMs;
    this.#burst = options.burst ?? 1;
    this.#startsAsyncWork = options.startsAsyncWork ?? false;
    this.#clock = options.clock ?? (() => performance.now());
    this.#nextTick = options.nextTick ?? setImmediate;
  }

  get isEmpty(): boolean {
    return this.#sources.size === 0;
  }

  /** A number that is the same for all calls within one tick of the event loop. */
  currentTick(): number {
    this.#schedule();
    return this.#tick;
  }

  /**
   * Whether a long job may run as it arrives, without queueing. All such jobs of one tick share one time slice: otherwise each of
   * many sources could take its share in the same tick.
   */
  hasTimeAtOnce(): boolean {
    const now = this.#clock();
    this.#atOnceEndsAt ??= now + this.#sliceMs;
    return now < this.#atOnceEndsAt;
  }

  add(source: JobSource): void {
    this.#sources.add(source);
    this.#schedule();
  }

  remove(source: JobSource): void {
    this.#sources.delete(source);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#nextTick(this.#startTick);
  }

  readonly #startTick = (): void => {
    this.#isScheduled = false;
    this.#tick += 1;
    this.#atOnceEndsAt = null;
    if (this.isEmpty) return;
    this.#sliceEndsAt = null;
    if (this.#startsAsyncWork) {
      for (let n = 0; n < MAX_ASYNC_JOBS_PER_TICK; n++) this.#nextTick(this.#runWithinSlice);
    } else {
      while (this.#runWithinSlice());
    }
    if (!this.isEmpty) this.#schedule();
  };

  /** Every slice runs at least one source, regardless of its duration. */
  readonly #runWithinSlice = (): boolean => {
    const [source] = this.#sources;
    if (!source) return false;
    if (this.#sliceEndsAt === null) this.#sliceEndsAt = this.#clock() + this.#sliceMs;
    else if (this.#clock() >= this.#sliceEndsAt) return false;
    let hasMore = source.runNext();
    for (let n = 1; n < this.#burst && hasMore && this.#clock() < this.#sliceEndsAt; n++) hasMore = source.runNext();
    // A source that was removed by its own job stays removed.
    if (this.#sources.delete(source) && hasMore) this.#sources.add(source);
    return true;
  };
}
