/** What a socket says at once; whoever has more to say waits until all others were heard. */
const FRAMES_AT_ONCE = 8;
/** In one turn of the loop, for all who said more than that. */
const TURN_MS = 5;
/** Of one socket: long past every budget of frames. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024;
/** What a frame that waits takes besides its own bytes. */
const FRAME_BYTES = 256;

type Said = {
  bytes: number;
  /** Takes it at once. */
  now(): void;
  /** Keeps it, and answers what takes it. */
  later(): () => void;
};

/** One socket, whose frames are taken in their order. */
export type Speaker = {
  say(frame: Said): void;
  /** After everything that was said before. */
  end(run: () => void): void;
};

/**
 * Whose frames are taken when. The network hands over everything that has arrived from a socket in one go; a flood of
 * hundreds of frames would be one turn of the loop, in which nobody else is heard.
 */
export class Turns {
  readonly #waiting = new Set<(() => void)[]>();
  readonly #clock: () => number;
  #turn = 0;
  #scheduled = false;

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** `flooded`: more waits than is kept. What it leaves to wait is then taken at once. */
  speaker(flooded: () => void): Speaker {
    const queue: (() => void)[] = [];
    let waitingBytes = 0;
    let turn = -1;
    let frames = 0;
    const wait = (run: () => void) => {
      queue.push(run);
      this.#waiting.add(queue);
    };
    return {
      say: ({ bytes, now, later }) => {
        this.#schedule();
        if (turn !== this.#turn) frames = 0;
        turn = this.#turn;
        frames += 1;
        if (queue.length === 0 && frames <= FRAMES_AT_ONCE) return now();
        const run = later();
        waitingBytes += bytes + FRAME_BYTES;
        wait(() => {
          waitingBytes -= bytes + FRAME_BYTES;
          run();
        });
        if (waitingBytes > MOST_WAITING_BYTES) flooded();
        while (waitingBytes > MOST_WAITING_BYTES) this.#next(queue);
      },
      end: (run) => {
        if (queue.length === 0) run();
        else wait(run);
      },
    };
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#endTurn());
  }

  #endTurn(): void {
    this.#scheduled = false;
    this.#turn += 1;
    const startedAt = this.#clock();
    while (this.#waiting.size > 0 && this.#clock() - startedAt < TURN_MS) {
      for (const queue of this.#waiting) {
        for (let frame = 0; frame < FRAMES_AT_ONCE && queue.length > 0; frame++) this.#next(queue);
        // Behind the others.
        if (this.#waiting.delete(queue) && queue.length > 0) this.#waiting.add(queue);
        if (this.#clock() - startedAt >= TURN_MS) break;
      }
    }
    if (this.#waiting.size > 0) this.#schedule();
  }

  #next(queue: (() => void)[]): void {
    const first = queue.shift();
    if (queue.length === 0) this.#waiting.delete(queue);
    first?.();
  }
}
