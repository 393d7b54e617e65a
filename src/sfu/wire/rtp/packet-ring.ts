/**
 * The unencrypted RTP packets of one published layer from the last second, for retransmission; all subscriptions of the
 * layer share them. The ring copies packets into buffers that it reuses, so readers must not keep references to them.
 * If it kept the received datagrams instead, each buffer would survive the garbage collector's young generation and
 * stay allocated until the next full collection, minutes later.
 */
import type { RtpView } from "./rtp.ts";

const KEEP_MS = 1_000;
const FIRST_CAPACITY = 64;
const MAX_CAPACITY = 2_048;
/** The newest packets stay whatever their age: the packet that begins a keyframe is recognised by those before it. */
const LOOK_BACK = 32;
/** Buffer lengths are rounded up to steps of 64 bytes: a buffer serves many packets, and a voice wastes little of its 50 a second. */
const STEP_BITS = 6;
const STEP_BYTES = 1 << STEP_BITS;
/** The number of spare buffers of each length. A burst hardly ever releases more. */
const MAX_SPARE = 128;

/** Buffers of released packets for the next ones, because allocating and collecting one per packet is expensive. */
class PacketBuffers {
  readonly #spare: Uint8Array[][] = [];

  /** Returns a buffer of at least `bytes` with arbitrary content. */
  take(bytes: number): Uint8Array {
    const steps = (bytes + STEP_BYTES - 1) >> STEP_BITS;
    return this.#spare[steps]?.pop() ?? new Uint8Array(steps * STEP_BYTES);
  }

  giveBack(buffer: Uint8Array): void {
    const steps = buffer.length >> STEP_BITS;
    while (this.#spare.length <= steps) this.#spare.push([]);
    const spare = this.#spare[steps] as Uint8Array[];
    if (spare.length < MAX_SPARE) spare.push(buffer);
  }
}

/** All rings of a worker share these. */
const buffers = new PacketBuffers();
/** `Buffer.copy` takes half the time of `set` with a subarray per packet. */
const copyBytes = Buffer.prototype.copy as (this: Uint8Array, to: Uint8Array, ...range: number[]) => number;

export class PacketRing {
  #data: (Uint8Array | undefined)[] = new Array<Uint8Array | undefined>(FIRST_CAPACITY).fill(undefined);
  #length = new Uint16Array(FIRST_CAPACITY);
  #extended = new Float64Array(FIRST_CAPACITY).fill(-1);
  #arrivedAt = new Float64Array(FIRST_CAPACITY);
  /** All packets before this sequence number have been released. */
  #oldest = -1;
  #newest = -1;

  get capacity(): number {
    return this.#data.length;
  }

  /** `extended` is the layer's sequence number, unwrapped by its `SequenceExtender`. The packet begins at `at`. */
  put(extended: number, from: Uint8Array, length: number, nowMs: number, at = 0): void {
    const slot = this.#slotFor(extended, nowMs);
    if (slot < 0) return;
    this.#empty(slot);
    const data = buffers.take(length);
    copyBytes.call(from, data, 0, at, at + length);
    this.#data[slot] = data;
    this.#length[slot] = length;
    this.#extended[slot] = extended;
    this.#arrivedAt[slot] = nowMs;
    if (extended > this.#newest) this.#newest = extended;
    this.release(nowMs);
  }

  /** Returns −1 for a packet that is not to be kept. */
  #slotFor(extended: number, nowMs: number): number {
    let slot = extended & (this.#data.length - 1);
    while (this.#isLive(slot, nowMs) && this.#extended[slot] !== extended && this.#data.length < MAX_CAPACITY) {
      this.#grow();
      slot = extended & (this.#data.length - 1);
    }
    // A straggler must not replace a newer packet, nor a repetition the packet that was sent: its bytes may differ.
    if (this.#isLive(slot, nowMs) && (this.#extended[slot] as number) >= extended) return -1;
    return slot;
  }

  /** Parses the packet into `view`; returns false when it is missing, or older than a second. */
  read(extended: number, nowMs: number, view: RtpView): boolean {
    return this.#isLive(extended & (this.#data.length - 1), nowMs) && this.peek(extended, view);
  }

  /** Parses the packet whatever its age, as long as no other packet has replaced it. */
  peek(extended: number, view: RtpView): boolean {
    const slot = extended & (this.#data.length - 1);
    const data = this.#data[slot];
    if (data === undefined || this.#extended[slot] !== extended) return false;
    return view.parse(data, this.#length[slot]);
  }

  /** The arrival time of a packet that `read` has just found. */
  arrivedAtMs(extended: number): number {
    return this.#arrivedAt[extended & (this.#data.length - 1)] as number;
  }

  /** Releases packets that are too old, as every `put` does: for layers that have stopped. */
  release(nowMs: number): void {
    const end = this.#newest - LOOK_BACK;
    let number = Math.max(this.#oldest, this.#newest + 1 - this.#data.length);
    for (; number < end; number++) {
      const slot = number & (this.#data.length - 1);
      if (this.#isLive(slot, nowMs)) break;
      this.#empty(slot);
    }
    this.#oldest = number;
  }

  #empty(slot: number): void {
    const data = this.#data[slot];
    if (data !== undefined) buffers.giveBack(data);
    this.#data[slot] = undefined;
  }

  #isLive(slot: number, nowMs: number): boolean {
    return this.#data[slot] !== undefined && nowMs - (this.#arrivedAt[slot] as number) <= KEEP_MS;
  }

  #grow(): void {
    const { length: old } = this.#data;
    const size = old * 2;
    const data = new Array<Uint8Array | undefined>(size).fill(undefined);
    const length = new Uint16Array(size);
    const extended = new Float64Array(size).fill(-1);
    const arrivedAt = new Float64Array(size);
    for (let slot = 0; slot < old; slot++) {
      if (this.#data[slot] === undefined) continue;
      const to = (this.#extended[slot] as number) & (size - 1);
      data[to] = this.#data[slot];
      length[to] = this.#length[slot] as number;
      extended[to] = this.#extended[slot] as number;
      arrivedAt[to] = this.#arrivedAt[slot] as number;
    }
    this.#data = data;
    this.#length = length;
    this.#extended = extended;
    this.#arrivedAt = arrivedAt;
  }
}
