import { type EdgeSocket, Outlet } from "./socket.ts";

/** A side that does not read stops the other from being read: no more than this waits in memory, each way. */
const HIGH_WATER_BYTES = 256 * 1_024;

/** Carries bytes between a client and what serves it, which is connected a little later. */
export class Pipe {
  readonly #front: Outlet;
  #back: Outlet | null = null;
  /** What came before it was connected. */
  #early: Buffer[] | null = null;
  #isOver = false;

  constructor(front: EdgeSocket) {
    this.#front = new Outlet(front);
  }

  connected(back: EdgeSocket): void {
    if (this.#isOver) {
      back.end();
      return;
    }
    this.#back = new Outlet(back);
    for (const data of this.#early ?? []) this.#back.write(data);
    this.#early = null;
    if (this.#back.pendingBytes < HIGH_WATER_BYTES) this.#front.socket.resume();
  }

  fromFront(data: Buffer): void {
    if (!this.#back) {
      this.#early ??= [];
      this.#early.push(Buffer.from(data));
      this.#front.socket.pause();
      return;
    }
    this.#back.write(data);
    if (this.#back.pendingBytes > HIGH_WATER_BYTES) this.#front.socket.pause();
  }

  fromBack(data: Buffer): void {
    this.#front.write(data);
    if (this.#front.pendingBytes > HIGH_WATER_BYTES) this.#back?.socket.pause();
  }

  frontDrained(): void {
    this.#front.drained();
    if (this.#front.pendingBytes === 0) this.#back?.socket.resume();
  }

  backDrained(): void {
    this.#back?.drained();
    if (this.#back?.pendingBytes === 0) this.#front.socket.resume();
  }

  /** The client is told so, and both sides are closed; what is still on its way to it comes first. */
  refuse(answer: Buffer): void {
    this.#front.write(answer);
    this.frontClosed();
    this.backClosed();
  }

  /** One side has gone, or never came: the other gets what is still on its way, and is closed. */
  frontClosed(): void {
    this.#isOver = true;
    this.#back?.end();
  }

  backClosed(): void {
    this.#isOver = true;
    this.#front.end();
  }
}
