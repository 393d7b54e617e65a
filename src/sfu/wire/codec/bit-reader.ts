// Reads bits of a codec header, most significant first. Past the end it returns zeros and sets `overrun`.

export class BitReader {
  readonly #data: Uint8Array;
  readonly #end: number;
  #at: number;
  #bit = 0;
  overrun = false;

  constructor(data: Uint8Array, offset: number, length: number) {
    this.#data = data;
    this.#at = offset;
    this.#end = offset + length;
  }

  bits(count: number): number {
    let value = 0;
    for (let i = 0; i < count; i++) value = value * 2 + this.#next();
    return value;
  }

  flag(): boolean {
    return this.#next() === 1;
  }

  /** Exp-Golomb, unsigned (H.264 §9.1). */
  unsigned(): number {
    let zeros = 0;
    while (zeros < 32 && this.#next() === 0 && !this.overrun) zeros++;
    return 2 ** zeros - 1 + this.bits(zeros);
  }

  /** Exp-Golomb, signed. */
  signed(): number {
    const code = this.unsigned();
    return code % 2 === 0 ? -code / 2 : (code + 1) / 2;
  }

  #next(): number {
    if (this.#at >= this.#end) {
      this.overrun = true;
      return 0;
    }
    const bit = ((this.#data[this.#at] as number) >> (7 - this.#bit)) & 1;
    this.#bit = (this.#bit + 1) & 7;
    if (this.#bit === 0) this.#at += 1;
    return bit;
  }
}
