import type { KeyProvider } from "./key-provider.ts";
import type { KeyCommand } from "./key-store.ts";

/** Whether a participant's tracks can be decrypted: no key has arrived, or the key that arrived does not fit. */
export type Decryption = "ok" | "missing-key" | "failed";

/** After this many consecutive failures the key is considered wrong, rather than single frames damaged. */
export const MAX_FAILED_FRAMES = 10;

/** Passes a provider's keys on to where frames are encrypted, and tracks whose frames can be decrypted. */
export class RoomKeys {
  readonly #provider: KeyProvider;
  readonly #apply: (command: KeyCommand) => void;
  readonly #stop: () => void;
  /** Identities whose frames failed to decrypt; each is cleared by a new key. */
  readonly #failed = new Set<string>();
  #identity = "";

  /** Called when `decryptionOf` may have changed for some participant. */
  onChanged: () => void = () => {};

  constructor(provider: KeyProvider, apply: (command: KeyCommand) => void) {
    this.#provider = provider;
    this.#apply = apply;
    for (const key of provider.keys) apply({ type: "key", ...key });
    this.#stop = provider.onChange((change) => {
      if (change.type === "activated") return this.#chooseOwnKey();
      if (change.type === "removed") apply({ ...change, type: "removeKey" });
      else {
        apply({ ...change, type: "key" });
        if (change.identity === null) this.#failed.clear();
        else this.#failed.delete(change.identity);
      }
      this.onChanged();
    });
  }

  /** Called with the local participant's identity when the room is joined. */
  joined(identity: string): void {
    this.#identity = identity;
    this.#chooseOwnKey();
    this.onChanged();
  }

  /** Called when frames of a participant cannot be decrypted. */
  failed(identity: string): void {
    this.#failed.add(identity);
    this.onChanged();
  }

  decryptionOf(identity: string): Decryption {
    if (!this.#provider.hasKeyOf(identity)) return "missing-key";
    return this.#failed.has(identity) ? "failed" : "ok";
  }

  close(): void {
    this.#stop();
  }

  #chooseOwnKey(): void {
    const key = this.#provider.activeKeyOf(this.#identity);
    if (key) this.#apply({ type: "encryptWith", ...key });
  }
}
