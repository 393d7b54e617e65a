import { ID_PREFIX, type PublicIdKind } from "../protocol/ids.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export type Ids = {
  /** UUIDv7: sorts by time, used inside. */
  uuid(): string;
  /** Prefix and 24 base62 characters (24 hex for requests), shown outside. */
  publicId(kind: PublicIdKind): string;
};

export function randomBase62(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length * 2))) {
      // 248 = 4 × 62: bytes above would favour the first letters.
      if (byte < 248 && text.length < length) text += BASE62[byte % 62];
    }
  }
  return text;
}

const REQUEST_ID_BYTES = 12;

export function randomIds(): Ids {
  // Every request takes one: random bytes are drawn for 256 of them at a time.
  const pool = new Uint8Array(REQUEST_ID_BYTES * 256);
  let used = pool.length;
  const requestHex = () => {
    if (used === pool.length) {
      crypto.getRandomValues(pool);
      used = 0;
    }
    used += REQUEST_ID_BYTES;
    return pool.subarray(used - REQUEST_ID_BYTES, used).toHex();
  };
  return {
    uuid: () => Bun.randomUUIDv7(),
    publicId: (kind) => ID_PREFIX[kind] + (kind === "request" ? requestHex() : randomBase62(24)),
  };
}
