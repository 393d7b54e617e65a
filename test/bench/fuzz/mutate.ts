/** Changes inputs: bits, bytes, numbers and lengths, pieces of the input itself, of others, and of a dictionary. */

export const MAX_INPUT_BYTES = 4_096;
const EDGES = [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 254, 255];
const LARGE_EDGES = [0, 1, 255, 256, 1_023, 1_024, 32_767, 32_768, 65_535, 65_536, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];

export type Random = () => number;

export function mutate(
  input: Uint8Array,
  corpus: readonly Uint8Array[],
  dictionary: readonly Uint8Array[],
  random: Random,
): Buffer {
  const below = (limit: number) => Math.floor(random() * limit);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  let data = Buffer.from(input);
  const replace = (at: number, removed: number, piece: Uint8Array) => {
    const next = Buffer.concat([data.subarray(0, at), piece, data.subarray(Math.min(data.length, at + removed))]);
    data = next.subarray(0, MAX_INPUT_BYTES);
  };
  for (let changes = 1 + below(5); changes > 0; changes--) {
    const at = below(data.length + 1);
    const length = 1 + below(random() < 0.8 ? 8 : 200);
    switch (below(10)) {
      case 0:
        if (at < data.length) data[at] = (data[at] as number) ^ (1 << below(8));
        break;
      case 1:
        if (at < data.length) data[at] = pick(EDGES);
        break;
      case 2:
        if (at < data.length) data[at] = below(256);
        break;
      case 3:
        if (at + 2 <= data.length) data.writeUInt16BE(pick(LARGE_EDGES) & 0xffff, at);
        break;
      case 4:
        if (at + 4 <= data.length) data.writeUInt32BE(pick(LARGE_EDGES) >>> 0, at);
        break;
      case 5:
        replace(at, length, Buffer.alloc(0));
        break;
      case 6:
        replace(at, 0, Buffer.alloc(length, pick(EDGES)));
        break;
      case 7: {
        const from = below(data.length + 1);
        replace(at, random() < 0.5 ? length : 0, Buffer.from(data.subarray(from, from + length)));
        break;
      }
      case 8: {
        const other = pick(corpus);
        const from = below(other.length + 1);
        replace(at, random() < 0.5 ? length : 0, other.subarray(from, from + length * 4));
        break;
      }
      case 9:
        if (dictionary.length > 0) replace(at, random() < 0.5 ? length : 0, pick(dictionary));
        break;
    }
  }
  return data;
}
