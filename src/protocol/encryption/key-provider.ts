/** What a key is made from: a passphrase, or random bytes that an application distributes. */
export type KeyMaterial = string | Uint8Array<ArrayBuffer>;

/** Key indices wrap at this number. Receivers hold several keys, because frames under former keys may still be under way. */
export const KEY_RING_SIZE = 16;

export type ProvidedKey = { identity: string | null; material: KeyMaterial; index: number };
type KeyChange =
  | ({ type: "set" } & ProvidedKey)
  | { type: "removed"; identity: string; index: number | null }
  | { type: "activated" };

/**
 * How the room is encrypted: with a passphrase that all participants know, with keys of your own, or with keys on which the
 * participants agree (`agree`), which change whenever someone joins or leaves.
 */
export type EncryptionOptions = { passphrase: string } | { keyProvider: KeyProvider } | { agree: true };

/** The keys of an encrypted room, which your application distributes without the server. */
export class KeyProvider {
  readonly #keys = new Map<string, ProvidedKey>();
  readonly #active = new Map<string | null, number>();
  readonly #listeners = new Set<(change: KeyChange) => void>();

  /**
   * Adds a key: of one participant, or of all if `identity` is null. A passphrase or at least 16 random bytes. The first
   * key is used for sending at once; for a later one, call `activate` once the other participants have it.
   */
  setKey(identity: string | null, material: KeyMaterial, index = 0): void {
    const isLongEnough = material.length >= (typeof material === "string" ? 1 : 16);
    if (!isLongEnough || !Number.isInteger(index) || index < 0 || index >= KEY_RING_SIZE) {
      throw new RangeError("A key is a passphrase or at least 16 bytes, and its index 0 to 15.");
    }
    const key = { identity, material: typeof material === "string" ? material : material.slice(), index };
    this.#keys.set(nameOf(identity, index), key);
    this.#changed({ type: "set", ...key });
    if (!this.#active.has(identity)) this.activate(identity, index);
  }

  /** Encrypts with the key of this index from now on, if the key is the local participant's or shared by all. */
  activate(identity: string | null, index: number): void {
    this.#active.set(identity, index);
    this.#changed({ type: "activated" });
  }

  /** Forgets the key of one participant with this index, or all of them; frames under it cannot be decrypted any more. */
  removeKey(identity: string, index: number | null = null): void {
    for (const key of this.keys) {
      if (key.identity === identity && (index ?? key.index) === key.index)
        this.#keys.delete(nameOf(identity, key.index));
    }
    this.#changed({ type: "removed", identity, index });
  }

  /** @internal Returns a function that removes the listener. */
  onChange(listener: (change: KeyChange) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** @internal */
  get keys(): readonly ProvidedKey[] {
    return [...this.#keys.values()];
  }

  /** @internal The key to encrypt with: that of the participant, or the one shared by all. */
  activeKeyOf(identity: string): { identity: string | null; index: number } | null {
    const own = this.#active.has(identity) ? identity : null;
    const index = this.#active.get(own);
    return index === undefined ? null : { identity: own, index };
  }

  /** @internal */
  hasKeyOf(identity: string): boolean {
    return this.keys.some((key) => key.identity === null || key.identity === identity);
  }

  #changed(change: KeyChange): void {
    for (const listener of [...this.#listeners]) listener(change);
  }
}

/** @internal */
export function keyProviderOf(options: Exclude<EncryptionOptions, { agree: true }>): KeyProvider {
  if ("keyProvider" in options) return options.keyProvider;
  const provider = new KeyProvider();
  provider.setKey(null, options.passphrase);
  return provider;
}

function nameOf(identity: string | null, index: number): string {
  return JSON.stringify([identity, index]);
}
