/** The messages between the page and the encryption worker. */
import type { EncryptedContent } from "../../../src/protocol/data/data-packet.ts";
import type { KeyCommand } from "../../../src/protocol/encryption/key-store.ts";

/** Frames of a sender are encrypted; those of a receiver are handled as its last `assign` says. */
export type TransformOptions = { direction: "send" } | { direction: "receive"; receiver: string };

export type ToWorker =
  | KeyCommand
  /** The participant whose track arrives at a receiver; null if it is not encrypted. */
  | { type: "assign"; receiver: string; identity: string | null }
  /** The codec of each payload type, which Firefox does not name with a frame. */
  | { type: "codecs"; mimeTypes: ReadonlyMap<number, string> }
  /** Each is answered with `data` and the same id. */
  | { type: "encryptData"; id: number; plain: Uint8Array }
  | { type: "decryptData"; id: number; identity: string; content: EncryptedContent };

export type FromWorker =
  /** Frames of a receiver cannot be decrypted. */
  | { type: "undecryptable"; identity: string }
  | { type: "data"; id: number; result: EncryptedContent | Uint8Array | null };
