import { ID_PREFIX, type PublicIdKind } from "../../protocol/ids.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export type Ids = {
  /** UUIDv7: sorts by time, used inside. */
  uuid(): string;
  /** Prefix and 24 base62 characters (24 hex for requests), shown outside. */
  publicId(kind: PublicIdKind): string;
};

export function randomBase62(length: number): string {
  const letters = Buffer.allocUnsafe(length);
  for (let made = 0; made < length; ) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length + 8))) {
      // 248 = 4 × 62: bytes above would favour the first letters.
      if (byte < 248 && made < length) letters[made++] = BASE62.charCodeAt(byte % 62);
    }
  }
  return letters.toString("latin1");
}

const PUBLIC_ID_DIGITS = 24;
/** Every request and every message takes one: random digits are drawn for so many of them at a time. */
const DRAWN_AT_ONCE = 256;

/** Ids of 24 digits each, cut from as many as `draw` makes at once. */
function drawnIds(draw: () => string): () => string {
  let digits = "";
  let used = 0;
  return () => {
    if (used === digits.length) {
      digits = draw();
      used = 0;
    }
    used += PUBLIC_ID_DIGITS;
    return digits.slice(used - PUBLIC_ID_DIGITS, used);
  };
}

export function randomIds(): Ids {
  const hex = drawnIds(() => crypto.getRandomValues(new Uint8Array((PUBLIC_ID_DIGITS / 2) * DRAWN_AT_ONCE)).toHex());
  const base62 = drawnIds(() => randomBase62(PUBLIC_ID_DIGITS * DRAWN_AT_ONCE));
  return {
    uuid: () => Bun.randomUUIDv7(),
    publicId: (kind) => ID_PREFIX[kind] + (kind === "request" ? hex() : base62()),
  };
}
