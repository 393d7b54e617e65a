import { type EventLoop, FairQueue } from "../scheduling/fair-queue.ts";

/** How many frames of a socket are handled as they arrive in one tick of the event loop; the rest waits in the queue. */
const FRAMES_PER_BURST = 8;
const SLICE_MS = 3;
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/** How many frames beyond the budget of a window wait to be refused one by one; with more the socket is closed. */
const MAX_FRAMES_OVER_BUDGET = 1_000;
/** The memory that a waiting frame takes besides its own bytes. */
const FRAME_OVERHEAD_BYTES = 256;

type Frame = { readonly length: number };

export type FrameHandler<F extends Frame> = {
  receive(frame: F): void;
  /** A copy of the frame that stays valid after `push` has returned. */
  copy(frame: F): F;
  /** The socket's budget; undefined when its frames are not counted. */
  framesPerWindow?(): number | undefined;
  /** More frames wait than may be kept. Those that the handler leaves waiting are then received at once. */
  overflowed(): void;
};

/** The queue that the readers of all sockets share. */
export function createFrameQueue(loop: EventLoop = {}): FairQueue {
  return new FairQueue({ sliceMs: SLICE_MS, burst: FRAMES_PER_BURST, ...loop });
}

/**
 * The incoming frames of one socket, in their order. The network hands over everything that has arrived from a socket at
 * once; without the queue hundreds of frames would block the event loop for all other sockets.
 */
export class SocketReader<F extends Frame> {
  readonly #waiting: F[] = [];
  #waitingBytes = 0;
  #onEnd: (() => void) | null = null;
  #tick = -1;
  #framesInTick = 0;

  constructor(
    private readonly queue: FairQueue,
    private readonly handler: FrameHandler<F>,
  ) {}

  push(frame: F): void {
    const tick = this.queue.currentTick();
    if (tick !== this.#tick) {
      this.#tick = tick;
      this.#framesInTick = 0;
    }
    this.#framesInTick += 1;
    if (this.#framesInTick <= FRAMES_PER_BURST && this.#waiting.length === 0) this.handler.receive(frame);
    else this.#wait(this.handler.copy(frame));
  }

  /** Calls `run` after all frames that were pushed before. */
  end(run: () => void): void {
    if (this.#waiting.length === 0) run();
    else this.#onEnd = run;
  }

  clear(): void {
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    this.queue.remove(this);
    this.#ended();
  }

  runNext(): boolean {
    const frame = this.#waiting.shift();
    try {
      if (frame !== undefined) {
        this.#waitingBytes -= frame.length + FRAME_OVERHEAD_BYTES;
        this.handler.receive(frame);
      }
    } finally {
      if (this.#waiting.length === 0) this.#ended();
    }
    return this.#waiting.length > 0;
  }

  #ended(): void {
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    onEnd?.();
  }

  #wait(frame: F): void {
    this.#waiting.push(frame);
    this.#waitingBytes += frame.length + FRAME_OVERHEAD_BYTES;
    this.queue.add(this);
    const maxFrames = (this.handler.framesPerWindow?.() ?? Number.POSITIVE_INFINITY) + MAX_FRAMES_OVER_BUDGET;
    if (this.#waitingBytes <= MAX_WAITING_BYTES && this.#waiting.length <= maxFrames) return;
    this.handler.overflowed();
    while (this.#waitingBytes > MAX_WAITING_BYTES) this.runNext();
  }
}
