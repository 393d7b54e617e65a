/** Writes dependency descriptors of streams with spatial and temporal layers, as the AV1 RTP specification describes them. */

class BitWriter {
  readonly #bits: number[] = [];

  add(value: number, count: number): this {
    for (let bit = count - 1; bit >= 0; bit--) this.#bits.push((value >> bit) & 1);
    return this;
  }

  bytes(): Uint8Array {
    const bytes = new Uint8Array(Math.ceil(this.#bits.length / 8));
    for (const [n, bit] of this.#bits.entries()) bytes[n >> 3] = (bytes[n >> 3] ?? 0) | (bit << (7 - (n & 7)));
    return bytes;
  }
}

export type DescribedPacket = { starts: boolean; ends: boolean; template: number; frameNumber: number };

function begin({ starts, ends, template, frameNumber }: DescribedPacket): BitWriter {
  return new BitWriter().add(Number(starts), 1).add(Number(ends), 1).add(template, 6).add(frameNumber, 16);
}

export function descriptor(packet: DescribedPacket): Uint8Array {
  return begin(packet).bytes();
}

type DescribedStructure = {
  spatial: number;
  temporal: number;
  offset: number;
  heights: number[];
  /** Of each template for each decode target; anything without them. */
  indications?: number[];
};

/** With a structure of one template for each layer: template `offset + s * temporal + t` is spatial layer s, temporal layer t. */
export function descriptorWithStructure(
  packet: DescribedPacket,
  { spatial, temporal, offset, heights, indications }: DescribedStructure,
): Uint8Array {
  const count = spatial * temporal;
  const bits = begin(packet)
    .add(0b10000, 5)
    .add(offset, 6)
    .add(count - 1, 5);
  for (let n = 1; n <= count; n++) bits.add(n === count ? 3 : n % temporal === 0 ? 2 : 1, 2);
  for (let n = 0; n < count * count; n++) bits.add(indications?.[n] ?? n % 4, 2);
  // Each template refers to the frame before, the last one also to the one before that.
  for (let n = 1; n <= count; n++) {
    bits.add(1, 1).add(n, 4);
    if (n === count) bits.add(1, 1).add(15, 4);
    bits.add(0, 1);
  }
  // One chain for each spatial layer: ns(count + 1), then for each decode target ns(chains), then the differences.
  nonSymmetric(bits, spatial, count + 1);
  for (let n = 0; n < count; n++) nonSymmetric(bits, Math.floor(n / temporal), spatial);
  for (let n = 0; n < count * spatial; n++) bits.add(n % 16, 4);
  bits.add(heights.length > 0 ? 1 : 0, 1);
  for (const height of heights) bits.add((height * 16) / 9 - 1, 16).add(height - 1, 16);
  return bits.bytes();
}

function nonSymmetric(bits: BitWriter, value: number, count: number): void {
  const width = count.toString(2).length;
  const short = 2 ** width - count;
  if (value < short) bits.add(value, width - 1);
  else bits.add(value + short, width);
}
