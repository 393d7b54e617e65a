import { ID_PREFIX, type PublicIdKind } from "../../protocol/ids.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export type Ids = {
  /** A UUIDv7, which sorts by time; for internal ids. */
  uuid(): string;
  /** Prefix and 24 base62 characters (24 hex for requests); for the public API. */
  publicId(kind: PublicIdKind): string;
};

export function randomBase62(length: number): string {
  const letters = Buffer.allocUnsafe(length);
  for (let made = 0; made < length; ) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length + 8))) {
      // 248 = 4 × 62: higher bytes would bias the first characters.
      if (byte < 248 && made < length) letters[made++] = BASE62.charCodeAt(byte % 62);
    }
  }
  return letters.toString("latin1");
}

const PUBLIC_ID_DIGITS = 24;
/** Every request and message needs an id, so random digits are generated for many at a time. */
const IDS_PER_BATCH = 256;

/** Ids of 24 digits each, cut from batches of random digits. */
function batchedIds(randomDigits: () => string): () => string {
  let digits = "";
  let used = 0;
  return () => {
    if (used === digits.length) {
      digits = randomDigits();
      used = 0;
    }
    used += PUBLIC_ID_DIGITS;
    return digits.slice(used - PUBLIC_ID_DIGITS, used);
  };
}

export function randomIds(): Ids {
  const hex = batchedIds(() => crypto.getRandomValues(new Uint8Array((PUBLIC_ID_DIGITS / 2) * IDS_PER_BATCH)).toHex());
  const base62 = batchedIds(() => randomBase62(PUBLIC_ID_DIGITS * IDS_PER_BATCH));
  return {
    uuid: () => Bun.randomUUIDv7(),
    publicId: (kind) => ID_PREFIX[kind] + (kind === "request" ? hex() : base62()),
  };
}
