/** Runs `work` one at a time: a call during a run makes it repeat, and resolves once nothing more is asked for. */
export class SerialRun {
  readonly #work: () => Promise<void>;
  #isAskedAgain = false;
  #running: Promise<void> | null = null;

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** The end of the current run; null without one. */
  get running(): Promise<void> | null {
    return this.#running;
  }

  /** Fails with the work; what was asked for meanwhile then waits for the next call. */
  run(): Promise<void> {
    this.#isAskedAgain = true;
    this.#running ??= this.#repeat();
    return this.#running;
  }

  async #repeat(): Promise<void> {
    try {
      while (this.#isAskedAgain) {
        this.#isAskedAgain = false;
        await this.#work();
      }
    } finally {
      this.#running = null;
    }
  }
}
