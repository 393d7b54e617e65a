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

const REQUEST_ID_DIGITS = 24;

export function randomIds(): Ids {
  // Every request takes one: random digits are drawn for 256 of them at a time.
  let digits = "";
  let used = 0;
  const requestHex = () => {
    if (used === digits.length) {
      digits = crypto.getRandomValues(new Uint8Array((REQUEST_ID_DIGITS / 2) * 256)).toHex();
      used = 0;
    }
    used += REQUEST_ID_DIGITS;
    return digits.slice(used - REQUEST_ID_DIGITS, used);
  };
  return {
    uuid: () => Bun.randomUUIDv7(),
    publicId: (kind) => ID_PREFIX[kind] + (kind === "request" ? requestHex() : randomBase62(24)),
  };
}
