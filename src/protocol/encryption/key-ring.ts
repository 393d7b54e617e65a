import { IV_BYTES } from "./frame-format.ts";
import { KEY_RING_SIZE, type KeyMaterial } from "./key-provider.ts";

const SALT = new TextEncoder().encode("LKFrameEncryptionKey");
const PASSPHRASE_ROUNDS = 100_000;
const RATCHET_BITS = 256;
/** The interval between failed searches: each costs as much as forty frames, and invalid frames would cause one search each. */
const SEARCH_EVERY_MS = 100;

/** The type `CryptoKey`, which does not exist in bots compiled without the browser's types. */
type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

/** Imports key material from which the browser can derive keys, without exposing its bytes. */
export async function importMaterial(material: KeyMaterial): Promise<Key> {
  const [bytes, algorithm] =
    typeof material === "string" ? [new TextEncoder().encode(material), "PBKDF2"] : [material, "HKDF"];
  return crypto.subtle.importKey("raw", bytes, algorithm, false, ["deriveBits", "deriveKey"]);
}

function derivation({ algorithm }: Key) {
  return algorithm.name === "PBKDF2"
    ? { name: "PBKDF2", salt: SALT, iterations: PASSPHRASE_ROUNDS, hash: "SHA-256" }
    : { name: "HKDF", salt: SALT, info: new Uint8Array(128), hash: "SHA-256" };
}

export function deriveFrameKey(material: Key, extractable = false): Promise<Key> {
  return crypto.subtle.deriveKey(derivation(material), material, { name: "AES-GCM", length: 128 }, extractable, [
    "encrypt",
    "decrypt",
  ]);
}

/** The next key material, from which the given one cannot be computed. */
export async function ratchet(material: Key): Promise<Key> {
  const bits = await nextMaterial(material);
  return crypto.subtle.importKey("raw", bits, material.algorithm.name, false, ["deriveBits", "deriveKey"]);
}

/** The bytes of the next key material, for participants who have to pass them on. */
export async function nextMaterial(material: Key): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.deriveBits(derivation(material), material, RATCHET_BITS));
}

type FrameKey = {
  material: Key;
  key: Key;
  /** The key from before the sender's last ratchet: frames under it may still be under way. */
  former: Key | null;
  nextIv(): Uint8Array<ArrayBuffer>;
};

/** The keys of one sender, by index. */
export class KeyRing {
  readonly #keys = new Map<number, FrameKey>();
  /** The index that this sender encrypts with. */
  current = 0;
  /** When a search among ratcheted keys last failed. */
  lostAtMs = Number.NEGATIVE_INFINITY;

  async set(index: number, material: Key, former: Key | null = null): Promise<void> {
    const key = await deriveFrameKey(material);
    this.lostAtMs = Number.NEGATIVE_INFINITY;
    this.#keys.set(index % KEY_RING_SIZE, { material, key, former, nextIv: ivSequence() });
  }

  get(index: number): FrameKey | undefined {
    return this.#keys.get(index);
  }

  delete(index: number): void {
    this.#keys.delete(index);
  }
}

/** IVs that never repeat under a key: eight random bytes and a counter. */
function ivSequence(): () => Uint8Array<ArrayBuffer> {
  const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
  const view = new DataView(iv.buffer);
  let counter = 0;
  return () => {
    if (counter > 0xff_ff_ff_ff) throw new Error("the key has encrypted as many frames as it may");
    view.setUint32(IV_BYTES - 4, counter++);
    return iv.slice();
  };
}

/**
 * Decrypts with the key of this index. If it does not fit, it is ratcheted up to `ratchets` times, because the sender may have done
 * the same, and the key that fits replaces the former one. Returns null if none fits.
 */
export async function tryRatchets<T extends object>(
  ring: KeyRing,
  index: number,
  ratchets: number,
  open: (key: Key) => Promise<T>,
): Promise<T | null> {
  const known = ring.get(index);
  if (!known) return null;
  const { key, former } = known;
  for (const candidate of former ? [key, former] : [key]) {
    const opened = await open(candidate).catch(() => null);
    if (opened !== null) return opened;
  }
  if (ratchets === 0 || performance.now() - ring.lostAtMs < SEARCH_EVERY_MS) return null;
  let { material } = known;
  for (let step = 0; step < ratchets; step++) {
    material = await ratchet(material);
    const opened = await open(await deriveFrameKey(material)).catch(() => null);
    if (opened === null) continue;
    await ring.set(index, material, key);
    return opened;
  }
  ring.lostAtMs = performance.now();
  return null;
}
