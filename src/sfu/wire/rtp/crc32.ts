/** CRC-32 as STUN and zip have it: the runtime's own where it has one. A participant also runs on Node 20, which has none. */
export const crc32: (data: Uint8Array) => number =
  typeof Bun === "undefined" ? crc32ByTable : (data) => Bun.hash.crc32(data);

const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

export function crc32ByTable(data: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of data) value = (value >>> 8) ^ (TABLE[(value ^ byte) & 0xff] as number);
  return (value ^ 0xffffffff) >>> 0;
}
