/** Reads the frames of a media node in order, within the node's share of the main thread. */
import { FairQueue } from "../kernel/scheduling/fair-queue.ts";
import { type ReaderLimits, SocketReader } from "../kernel/socket/socket-reader.ts";
import type { Timers } from "../kernel/time/timers.ts";
import { NODE_RING_CHARACTERS, NODE_RING_FRAMES } from "./remote-protocol.ts";

type NodeFrameQueueDeps = {
  timers: Timers;
  clock?: () => number;
};

type NodeFrameHandler = {
  receive(frame: string): void;
  /** Called when more frames wait than a well-behaved node sends. */
  overflowed(): void;
};

const SLICE_MS = 3;
/** The share of the main thread that a node may take in the long run, and how long it may take all of it. */
const SHARE = 0.25;
const BURST_MS = 1_000;
/** Twice the number of frames that a node repeats after an interruption. */
const MAX_WAITING_FRAMES = 2 * NODE_RING_FRAMES;
const LIMITS: ReaderLimits = { framesAtOnce: 0, waitingBytes: 2 * NODE_RING_CHARACTERS };

/** Is kept across sockets to the node, so that reconnecting does not renew its share. */
export class NodeFrameQueue {
  readonly #timers: Timers;
  readonly #clock: () => number;
  readonly #queue: FairQueue;
  #availableMs = BURST_MS;
  #refilledAtMs: number;

  constructor({ timers, clock = () => performance.now() }: NodeFrameQueueDeps) {
    this.#timers = timers;
    this.#clock = clock;
    this.#refilledAtMs = clock();
    this.#queue = new FairQueue({ sliceMs: SLICE_MS, clock, nextTick: (run) => this.#whenAvailable(run) });
  }

  reader({ receive, overflowed }: NodeFrameHandler): SocketReader<string> {
    return new SocketReader<string>(
      this.#queue,
      {
        receive: (frame) => {
          const startedAtMs = this.#clock();
          try {
            receive(frame);
          } finally {
            this.#availableMs -= this.#clock() - startedAtMs;
          }
        },
        copy: (frame) => frame,
        framesPerWindow: () => MAX_WAITING_FRAMES,
        overflowed,
      },
      LIMITS,
    );
  }

  #whenAvailable(run: () => void): void {
    const nowMs = this.#clock();
    this.#availableMs = Math.min(BURST_MS, this.#availableMs + (nowMs - this.#refilledAtMs) * SHARE);
    this.#refilledAtMs = nowMs;
    if (this.#availableMs >= 0) setImmediate(run);
    else this.#timers.after(-this.#availableMs / SHARE, run);
  }
}
