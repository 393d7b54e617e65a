/** What the page and the encryption worker send each other. */

/** Key indices wrap at this number, so that a receiver can hold former keys for frames that are under way. */
export const KEY_RING_SIZE = 16;

/** What a key is made from: a passphrase, or random bytes that an application distributes. */
export type KeyMaterial = string | Uint8Array<ArrayBuffer>;

/** Frames of a sender are encrypted; those of a receiver are handled as its last `assign` says. */
export type TransformOptions = { direction: "send" } | { direction: "receive"; receiver: string };

export type ToWorker =
  /** A key of one participant, or of all if `identity` is null. */
  | { type: "key"; identity: string | null; material: KeyMaterial; index: number }
  /** The index of the key that this participant encrypts with, and whose keys those are. */
  | { type: "encryptWith"; identity: string | null; index: number }
  /** The participant whose track arrives at a receiver; null if it is not encrypted. */
  | { type: "assign"; receiver: string; identity: string | null };

/** Frames of a receiver cannot be decrypted. */
export type FromWorker = { type: "undecryptable"; receiver: string; identity: string };
