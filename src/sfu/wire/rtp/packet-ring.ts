// The last second of one published layer, to answer NACKs from: shared by all its subscriptions. It makes copies (plain,
// after SRTP), whose memory is used again later: whoever reads a packet does not keep it. A datagram's own buffer that is
// held for a second outlives a young collection: it is old by the time it is let go of, and stays until the next full one,
// which is minutes away.

import type { RtpView } from "./rtp.ts";

const KEEP_MS = 1_000;
const FIRST_CAPACITY = 64;
const MAX_CAPACITY = 2_048;
/** So many of the newest stay whatever their age: what begins a picture is told from those before it. */
const LOOK_BACK = 32;
/** Lengths of buffers are rounded up to steps of 128 bytes, so that a buffer serves many packets. */
const STEP_BITS = 7;
const STEP_BYTES = 1 << STEP_BITS;
/** Of each length. More than so many are let go of within one burst hardly ever. */
const MAX_SPARE = 128;

/** Memory of packets that nobody needs any longer, for the next ones: a large buffer for each of them is much to allocate, and to collect. */
class PacketBuffers {
  readonly #spare: Uint8Array[][] = [];

  /** Of so many bytes at least, whatever is in it. */
  take(bytes: number): Uint8Array {
    const steps = (bytes + STEP_BYTES - 1) >> STEP_BITS;
    return this.#spare[steps]?.pop() ?? new Uint8Array(steps * STEP_BYTES);
  }

  /** It came from here, and nobody looks at it any more. */
  giveBack(buffer: Uint8Array): void {
    const steps = buffer.length >> STEP_BITS;
    let spare = this.#spare[steps];
    if (!spare) {
      while (this.#spare.length <= steps) this.#spare.push([]);
      spare = this.#spare[steps] as Uint8Array[];
    }
    if (spare.length < MAX_SPARE) spare.push(buffer);
  }
}

/** One serves all rings of a worker. */
const buffers = new PacketBuffers();
/** In half the time that `set` takes with a view of its own for each packet. */
const copyBytes = Buffer.prototype.copy as (this: Uint8Array, to: Uint8Array, ...range: number[]) => number;

export class PacketRing {
  #data: (Uint8Array | undefined)[] = new Array<Uint8Array | undefined>(FIRST_CAPACITY).fill(undefined);
  #length = new Uint16Array(FIRST_CAPACITY);
  #extended = new Float64Array(FIRST_CAPACITY).fill(-1);
  #arrivedAt = new Float64Array(FIRST_CAPACITY);
  /** All before it have been let go of. */
  #kept = -1;
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

  /** −1: it is not to be kept. */
  #slotFor(extended: number, nowMs: number): number {
    let slot = extended & (this.#data.length - 1);
    while (this.#isLive(slot, nowMs) && this.#extended[slot] !== extended && this.#data.length < MAX_CAPACITY) {
      this.#grow();
      slot = extended & (this.#data.length - 1);
    }
    // A straggler must not push out a newer packet, nor a repetition what was sent: it may not be the same in every byte.
    if (this.#isLive(slot, nowMs) && (this.#extended[slot] as number) >= extended) return -1;
    return slot;
  }

  /** Parses the packet into `view`; false when it is not here, or older than a second. */
  read(extended: number, nowMs: number, view: RtpView): boolean {
    return this.#isLive(extended & (this.#data.length - 1), nowMs) && this.peek(extended, view);
  }

  /** The same whatever its age, while no other packet has taken its place. */
  peek(extended: number, view: RtpView): boolean {
    const slot = extended & (this.#data.length - 1);
    const data = this.#data[slot];
    if (data === undefined || this.#extended[slot] !== extended) return false;
    return view.parse(data, this.#length[slot]);
  }

  /** Of a packet that `read` has just found. */
  arrivedAtMs(extended: number): number {
    return this.#arrivedAt[extended & (this.#data.length - 1)] as number;
  }

  /** Lets go of buffers too old to be sent, as every packet does: for layers that have stopped. */
  release(nowMs: number): void {
    const end = this.#newest - LOOK_BACK;
    let number = Math.max(this.#kept, this.#newest + 1 - this.#data.length);
    for (; number < end; number++) {
      const slot = number & (this.#data.length - 1);
      if (this.#isLive(slot, nowMs)) break;
      this.#empty(slot);
    }
    this.#kept = number;
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
