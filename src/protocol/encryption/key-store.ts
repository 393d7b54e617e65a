import type { EncryptedContent } from "../data/data-packet.ts";
import { type DecryptFailure, decryptFrame, encryptFrame, type Frame } from "./frame-cipher.ts";
import { IV_BYTES } from "./frame-format.ts";
import type { ProvidedKey } from "./key-provider.ts";
import { importMaterial, KeyRing, tryRatchets } from "./key-ring.ts";

/** The number of ratchets that receivers follow for a participant's own key. A key shared by all is never ratcheted. */
const RATCHETS = 8;
/** How long frames and data that arrive before their key are held. */
const KEY_WAIT_MS = 1_000;
/** AES-GCM, the only type of encryption that LiveKit's clients know. */
const GCM = 1;

export type KeyCommand =
  /** A key of one participant, or of all if `identity` is null. */
  | ({ type: "key" } & ProvidedKey)
  /** Without an index, removes all keys of the participant. */
  | { type: "removeKey"; identity: string; index: number | null }
  /** The index of the key that this participant encrypts with, and whose key it is. */
  | { type: "encryptWith"; identity: string | null; index: number };

/** The keys that one participant knows, and the encryption and decryption with them. */
export class KeyStore {
  readonly #rings = new Map<string | null, KeyRing>();
  readonly #waiting = new Set<() => void>();
  /** Participants whose key did not arrive in time. Their next frames do not wait again. */
  readonly #late = new Set<string>();
  /** The participant whose keys are used for encryption; null while that is the key shared by all. */
  #own: string | null = null;
  /** The end of the queue: commands are applied one after another, although importing a key is asynchronous. */
  #applied: Promise<void> = Promise.resolve();
  /** The number of commands that are not applied yet. */
  #pending = 0;

  apply(command: KeyCommand): Promise<void> {
    this.#pending += 1;
    this.#applied = this.#applied
      .then(() => this.#apply(command))
      .catch((error) => console.error("encryption: key not applied", error))
      .finally(() => {
        this.#pending -= 1;
      });
    return this.#applied;
  }

  encrypt(frame: Frame): Promise<Uint8Array<ArrayBuffer> | null> {
    return encryptFrame(this.#ringOf(this.#own), frame);
  }

  /**
   * Waits for a key that may be under way. After a failed wait it does not wait again until something of that participant could be
   * decrypted.
   */
  async decrypt(identity: string, frame: Frame): Promise<Uint8Array<ArrayBuffer> | DecryptFailure> {
    const attempt = () => {
      const { ring, ratchets } = this.#opening(identity);
      return decryptFrame(ring, frame, ratchets);
    };
    const isKeyless = (outcome: unknown) => outcome === "wrong-key" || outcome === "unknown-key";
    let result = await attempt();
    // The key may still be derived: a passphrase takes 100,000 rounds, which are seconds on a busy machine.
    if (isKeyless(result) && this.#pending > 0) {
      await this.#applied;
      result = await attempt();
    }
    if (result !== "unknown-key") return result;
    let late: typeof result | Awaited<ReturnType<typeof attempt>> = result;
    await this.#waitForKey(identity, async () => {
      late = await attempt();
      return late !== "unknown-key";
    });
    return late;
  }

  /** Null without a key. */
  async encryptData(plain: Uint8Array): Promise<EncryptedContent | null> {
    await this.#applied;
    const ring = this.#ringOf(this.#own);
    const keyIndex = ring.current;
    const key = ring.get(keyIndex);
    if (!key) return null;
    const iv = key.nextIv();
    const value = new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, key.key, plain.slice()));
    return { type: GCM, iv, keyIndex, value };
  }

  /** Null if it cannot be decrypted; it waits for a key that is under way. */
  async decryptData(identity: string, content: EncryptedContent): Promise<Uint8Array<ArrayBuffer> | null> {
    const { iv, keyIndex = 0, value } = content;
    if (!value || iv?.length !== IV_BYTES) return null;
    const isKnown = () => this.#opening(identity).ring.get(keyIndex) !== undefined;
    if (!isKnown()) await this.#applied;
    if (!isKnown()) await this.#waitForKey(identity, async () => isKnown());
    const { ring, ratchets } = this.#opening(identity);
    return tryRatchets(ring, keyIndex, ratchets, async (key) => {
      const plain = await crypto.subtle.decrypt({ name: "AES-GCM", iv: iv.slice() }, key, value.slice());
      return new Uint8Array(plain);
    });
  }

  async #apply(command: KeyCommand): Promise<void> {
    const { type, identity, index } = command;
    if (type === "removeKey") {
      if (index === null) this.#rings.delete(identity);
      else this.#rings.get(identity)?.delete(index);
    } else if (type === "encryptWith") {
      this.#own = identity;
      this.#ringOf(identity).current = index;
    } else {
      await this.#ringOf(identity).set(index, await importMaterial(command.material));
      this.#late.clear();
      for (const proceed of [...this.#waiting]) proceed();
    }
  }

  async #waitForKey(identity: string, isThere: () => Promise<boolean>): Promise<void> {
    const until = performance.now() + KEY_WAIT_MS;
    while (!this.#late.has(identity)) {
      const remaining = until - performance.now();
      if (remaining <= 0) this.#late.add(identity);
      else await this.#keyArrival(remaining);
      if (await isThere()) return void this.#late.delete(identity);
    }
  }

  /** Resolves when a key arrives, or when the time is over. */
  #keyArrival(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const proceed = () => {
        clearTimeout(timer);
        this.#waiting.delete(proceed);
        resolve();
      };
      const timer = setTimeout(proceed, withinMs);
      this.#waiting.add(proceed);
    });
  }

  #opening(identity: string): { ring: KeyRing; ratchets: number } {
    const own = this.#rings.get(identity);
    return own ? { ring: own, ratchets: RATCHETS } : { ring: this.#ringOf(null), ratchets: 0 };
  }

  #ringOf(identity: string | null): KeyRing {
    let ring = this.#rings.get(identity);
    if (!ring) {
      ring = new KeyRing();
      this.#rings.set(identity, ring);
    }
    return ring;
  }
}
