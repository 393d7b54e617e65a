/** Lengths are rounded up to these steps, so that a buffer serves many packets. */
const STEP_BYTES = 128;
/** Of each length. More than so many are let go of within one burst hardly ever. */
const MAX_SPARE = 128;

/** Memory of packets that nobody needs any longer, for the next ones: a large buffer for each of them is much to allocate, and to collect. */
export class PacketBuffers {
  readonly #spare: Uint8Array[][] = [];

  /** Of so many bytes at least, whatever is in it. */
  take(bytes: number): Uint8Array {
    const steps = Math.ceil(bytes / STEP_BYTES);
    return this.#spare[steps]?.pop() ?? new Uint8Array(steps * STEP_BYTES);
  }

  /** It came from here, and nobody looks at it any more. */
  giveBack(buffer: Uint8Array): void {
    const steps = buffer.length / STEP_BYTES;
    let spare = this.#spare[steps];
    if (!spare) {
      while (this.#spare.length <= steps) this.#spare.push([]);
      spare = this.#spare[steps] as Uint8Array[];
    }
    if (spare.length < MAX_SPARE) spare.push(buffer);
  }
}
