import { ID_PREFIX, type PublicIdKind } from "../../protocol/ids.ts";
import type { Now } from "../time/clock.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export type Ids = {
  /** A UUIDv7, which sorts by time; for internal ids. */
  uuid(): string;
  /** Prefix and 24 base62 characters, which sort by time (24 random hex for requests); for the public API. */
  publicId(kind: PublicIdKind): string;
};

export function randomBase62(length: number): string {
  const letters = Buffer.allocUnsafe(length);
  for (let made = 0; made < length; ) {
    // One byte of 32 is left out.
    const bytes = crypto.getRandomValues(new Uint8Array(length + (length >> 4) + 8));
    // Iterating over the array itself takes eight times as long.
    for (let at = 0; at < bytes.length && made < length; at++) {
      const byte = bytes[at] ?? 0;
      // 248 = 4 × 62: higher bytes would bias the first characters.
      if (byte < 248) letters[made++] = BASE62.charCodeAt(byte % 62);
    }
  }
  return letters.toString("latin1");
}

const PUBLIC_ID_DIGITS = 24;
const REQUEST_ID_BYTES = PUBLIC_ID_DIGITS / 2;
/** Enough for milliseconds until the year 8888. */
const TIME_DIGITS = 8;
const RANDOM_DIGITS = PUBLIC_ID_DIGITS - TIME_DIGITS;
/** Every request and message needs an id, so random digits are generated for many at a time. */
const IDS_PER_BATCH = 256;

/** Strings of so many digits, cut from batches of random digits. */
function batched(length: number, randomDigits: () => string): () => string {
  let digits = "";
  let used = 0;
  return () => {
    if (used === digits.length) {
      digits = randomDigits();
      used = 0;
    }
    used += length;
    return digits.slice(used - length, used);
  };
}

/**
 * The time in base62 digits, which sort as the times do. Records that are stored one after the other then have
 * neighbouring entries in the index of their ids; with random ids, each of them would change another page of it.
 */
function timeDigits(at: number): string {
  let digits = "";
  for (let rest = at; digits.length < TIME_DIGITS; rest = Math.floor(rest / 62))
    digits = BASE62.charAt(rest % 62) + digits;
  return digits;
}

export function createIds(now: Now): Ids {
  const hex = batched(PUBLIC_ID_DIGITS, () =>
    crypto.getRandomValues(new Uint8Array(REQUEST_ID_BYTES * IDS_PER_BATCH)).toHex(),
  );
  const random = batched(RANDOM_DIGITS, () => randomBase62(RANDOM_DIGITS * IDS_PER_BATCH));
  let time = { at: Number.NaN, digits: "" };
  return {
    uuid: () => Bun.randomUUIDv7(),
    publicId(kind) {
      if (kind === "request") return ID_PREFIX[kind] + hex();
      const at = now();
      if (at !== time.at) time = { at, digits: timeDigits(at) };
      return ID_PREFIX[kind] + time.digits + random();
    },
  };
}
