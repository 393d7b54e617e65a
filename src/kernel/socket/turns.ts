/** What a socket says at once; whoever has more to say waits until all others were heard. */
const FRAMES_AT_ONCE = 8;
/** In one turn of the loop, for all who said more than that. */
const TURN_MS = 3;
/** Of one socket, whatever its budget of frames. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024;
/** Past what a socket may say in a window: so long are its frames refused one by one, and not all with it. */
const MOST_PAST_BUDGET = 1_000;
/** What a frame that waits takes besides its own bytes. */
const FRAME_BYTES = 256;

type Frame = { readonly length: number };

export type Hearing<Said extends Frame> = {
  hear(frame: Said): void;
  /** The frame as it can be kept after `say` has returned. */
  kept(frame: Said): Said;
  /** What it may say in a window; undefined when frames are not counted. */
  framesPerWindow?(): number | undefined;
  /** More waits than is kept. What it leaves to wait is then heard at once. */
  flooded(): void;
};

/**
 * Whose frames are taken when. The network hands over everything that has arrived from a socket in one go; a flood of
 * hundreds of frames would be one turn of the loop, in which nobody else is heard.
 */
export class Turns {
  readonly #waiting = new Set<{ next(): boolean }>();
  readonly #clock: () => number;
  #turn = 0;
  #scheduled = false;

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  speaker<Said extends Frame>(hearing: Hearing<Said>): Speaker<Said> {
    return new Speaker(this, hearing);
  }

  /** The number of the turn that something was said in. */
  now(): number {
    if (!this.#scheduled) this.#schedule();
    return this.#turn;
  }

  wait(speaker: { next(): boolean }): void {
    this.#waiting.add(speaker);
  }

  done(speaker: { next(): boolean }): void {
    this.#waiting.delete(speaker);
  }

  #schedule(): void {
    this.#scheduled = true;
    setImmediate(this.#endTurn);
  }

  readonly #endTurn = (): void => {
    this.#scheduled = false;
    this.#turn += 1;
    if (this.#waiting.size === 0) return;
    const startedAt = this.#clock();
    while (this.#waiting.size > 0 && this.#clock() - startedAt < TURN_MS) {
      for (const speaker of this.#waiting) {
        let hasMore = true;
        for (let frame = 0; frame < FRAMES_AT_ONCE && hasMore; frame++) hasMore = speaker.next();
        // Behind the others.
        if (this.#waiting.delete(speaker) && hasMore) this.#waiting.add(speaker);
        if (this.#clock() - startedAt >= TURN_MS) break;
      }
    }
    if (this.#waiting.size > 0 && !this.#scheduled) this.#schedule();
  };
}

/** One socket, whose frames are taken in their order. */
export class Speaker<Said extends Frame> {
  readonly #queue: Said[] = [];
  #end: (() => void) | null = null;
  #waitingBytes = 0;
  #turn = -1;
  #frames = 0;

  constructor(
    private readonly turns: Turns,
    private readonly hearing: Hearing<Said>,
  ) {}

  say(frame: Said): void {
    const turn = this.turns.now();
    if (turn !== this.#turn) {
      this.#turn = turn;
      this.#frames = 0;
    }
    this.#frames += 1;
    if (this.#frames <= FRAMES_AT_ONCE && this.#queue.length === 0) this.hearing.hear(frame);
    else this.#keep(this.hearing.kept(frame));
  }

  /** After everything that was said before. */
  end(run: () => void): void {
    if (this.#queue.length === 0) run();
    else this.#end = run;
  }

  /** Nobody hears what waits. */
  forget(): void {
    this.#queue.length = 0;
    this.#waitingBytes = 0;
    this.turns.done(this);
    this.#over();
  }

  /** Hears what was said first; false when nothing is left after it. */
  next(): boolean {
    const frame = this.#queue.shift();
    const hasMore = this.#queue.length > 0;
    if (!hasMore) this.turns.done(this);
    try {
      if (frame !== undefined) {
        this.#waitingBytes -= frame.length + FRAME_BYTES;
        this.hearing.hear(frame);
      }
    } finally {
      if (!hasMore) this.#over();
    }
    return hasMore;
  }

  #over(): void {
    const end = this.#end;
    this.#end = null;
    end?.();
  }

  #keep(frame: Said): void {
    this.#queue.push(frame);
    this.#waitingBytes += frame.length + FRAME_BYTES;
    this.turns.wait(this);
    const mostFrames = (this.hearing.framesPerWindow?.() ?? Number.POSITIVE_INFINITY) + MOST_PAST_BUDGET;
    if (this.#waitingBytes <= MOST_WAITING_BYTES && this.#queue.length <= mostFrames) return;
    this.hearing.flooded();
    while (this.#waitingBytes > MOST_WAITING_BYTES) this.next();
  }
}
