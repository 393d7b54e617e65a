import { Emitter } from "../emitter.ts";
import { StoaError } from "../errors.ts";
import { KEY_RING_SIZE, type KeyMaterial } from "./messages.ts";

type ProvidedKey = { identity: string | null; material: KeyMaterial; index: number };
type KeyProviderEvents = {
  /** @internal */
  keySet: [key: ProvidedKey];
  /** @internal */
  activated: [];
};

/** The keys of an encrypted room, which your application distributes without the server. */
export class KeyProvider extends Emitter<KeyProviderEvents> {
  readonly #keys = new Map<string, ProvidedKey>();
  readonly #active = new Map<string | null, number>();

  /**
   * Adds a key: of one participant, or of all if `identity` is null. A passphrase or at least 16 random bytes. The first
   * key is used for sending at once; for a later one, call `activate` once the other participants have it.
   */
  setKey(identity: string | null, material: KeyMaterial, index = 0): void {
    const isLongEnough = material.length >= (typeof material === "string" ? 1 : 16);
    if (!isLongEnough || !Number.isInteger(index) || index < 0 || index >= KEY_RING_SIZE) {
      throw new StoaError("INVALID_KEY", "invalid", "A key is a passphrase or 16 bytes or more, its index 0 to 15.");
    }
    const key = { identity, material: typeof material === "string" ? material : material.slice(), index };
    this.#keys.set(JSON.stringify([identity, index]), key);
    this.emit("keySet", key);
    if (!this.#active.has(identity)) this.activate(identity, index);
  }

  /** Encrypts with the key of this index from now on, if the key is the local participant's or shared by all. */
  activate(identity: string | null, index: number): void {
    this.#active.set(identity, index);
    this.emit("activated");
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
}
