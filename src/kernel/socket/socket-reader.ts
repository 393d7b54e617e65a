import { type EventLoop, FairQueue } from "../scheduling/fair-queue.ts";

const FRAMES_PER_BURST = 8;
const SLICE_MS = 3;
/** A larger frame counts as several of those that are handled as they arrive: what it costs grows with its size. */
const BURST_FRAME_BYTES = 16 * 1024;
/** How many frames beyond the budget of a window are rejected one by one; with more the socket is closed. */
const MAX_FRAMES_OVER_BUDGET = 1_000;
/** The memory of a queued frame in addition to its own bytes. */
const FRAME_OVERHEAD_BYTES = 256;

type Frame = { readonly length: number };

type FrameHandler<F extends Frame> = {
  receive(frame: F): void;
  /** A copy of the frame that stays valid after `push` has returned. */
  copy(frame: F): F;
  /** The socket's budget; undefined when its frames are not counted. */
  framesPerWindow?(): number | undefined;
  /** More frames wait than may be kept. Frames that the handler has left in the queue are then handled at once. */
  overflowed(): void;
};

export type ReaderLimits = {
  /** How many frames are handled as they arrive in one tick of the event loop; the rest waits in the queue. */
  framesAtOnce: number;
  /** The bytes of all frames that wait. A single frame may wait whatever its size, which its protocol limits. */
  waitingBytes: number;
};

/**
 * A client whose frames fill this memory does not wait for responses. Much more of it for each of many sockets would be
 * garbage that the engine collects again and again, for tens of milliseconds each time.
 */
const CLIENT_LIMITS: ReaderLimits = { framesAtOnce: FRAMES_PER_BURST, waitingBytes: 1024 * 1024 };

export function createFrameQueue(loop: EventLoop = {}): FairQueue {
  return new FairQueue({ sliceMs: SLICE_MS, burst: FRAMES_PER_BURST, ...loop });
}

/**
 * The incoming frames of one socket, in order. The network delivers all received frames of a socket together; without
 * the queue hundreds of frames would block the event loop for all other sockets.
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
    private readonly limits: ReaderLimits = CLIENT_LIMITS,
  ) {}

  push(frame: F): void {
    const tick = this.queue.currentTick();
    if (tick !== this.#tick) {
      this.#tick = tick;
      this.#framesInTick = 0;
    }
    const weight = Math.max(1, Math.floor(frame.length / BURST_FRAME_BYTES));
    this.#framesInTick += weight;
    const isAtOnce =
      this.#framesInTick <= this.limits.framesAtOnce &&
      this.#waiting.length === 0 &&
      (weight === 1 || this.queue.hasTimeAtOnce());
    if (isAtOnce) this.handler.receive(frame);
    else this.#wait(this.handler.copy(frame));
  }

  /** Calls `run` after all frames that were pushed earlier. */
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
    if (!this.#holdsTooManyBytes() && this.#waiting.length <= maxFrames) return;
    this.handler.overflowed();
    while (this.#holdsTooManyBytes()) this.runNext();
  }

  #holdsTooManyBytes(): boolean {
    return this.#waiting.length > 1 && this.#waitingBytes > this.limits.waitingBytes;
  }
}
