import { concat } from "../media/protobuf.ts";
import { type FrameCodec, joinEncryptedFrame, splitEncryptedFrame, splitPlainFrame } from "./frame-format.ts";
import { type KeyRing, tryRatchets } from "./key-ring.ts";

export type Frame = { codec: FrameCodec; bytes: Uint8Array<ArrayBuffer>; isKeyframe: boolean };

/** Why a frame could not be decrypted: it was not encrypted, its key is unknown, or the known key does not fit. */
export type DecryptFailure = "not-encrypted" | "unknown-key" | "wrong-key";

/** Encrypts a frame with the sender's current key. Returns null for a frame that must not be sent, because it would be readable. */
export async function encryptFrame(ring: KeyRing, frame: Frame): Promise<Uint8Array<ArrayBuffer> | null> {
  // An empty frame stands for silence and has no content to encrypt.
  if (frame.bytes.length === 0) return frame.bytes;
  const keyIndex = ring.current;
  const key = ring.get(keyIndex);
  if (!key) return null;
  const split = splitPlainFrame(frame.codec, frame.bytes, frame.isKeyframe);
  if (!split) return null;
  const clear = split.frame.slice(0, split.clearBytes);
  const iv = key.nextIv();
  const algorithm = { name: "AES-GCM", iv, additionalData: clear };
  const body = new Uint8Array(await crypto.subtle.encrypt(algorithm, key.key, split.frame.slice(split.clearBytes)));
  return joinEncryptedFrame(frame.codec, { clear, body, iv, keyIndex });
}

/** Decrypts a frame. If the sender has ratcheted its key, up to `ratchets` times, the receiver's key follows. */
export async function decryptFrame(
  ring: KeyRing,
  frame: Frame,
  ratchets: number,
): Promise<Uint8Array<ArrayBuffer> | DecryptFailure> {
  if (frame.bytes.length === 0) return frame.bytes;
  const parts = splitEncryptedFrame(frame.codec, frame.bytes, frame.isKeyframe);
  if (!parts) return "not-encrypted";
  if (!ring.get(parts.keyIndex)) return "unknown-key";
  const algorithm = { name: "AES-GCM", iv: parts.iv.slice(), additionalData: parts.clear.slice() };
  const body = parts.body.slice();
  const plain = await tryRatchets(ring, parts.keyIndex, ratchets, async (key) => {
    const secret = new Uint8Array(await crypto.subtle.decrypt(algorithm, key, body));
    return concat([parts.clear, secret]);
  });
  return plain ?? "wrong-key";
}
