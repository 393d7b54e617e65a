import { type FrameCodec, joinEncryptedFrame, splitEncryptedFrame, splitPlainFrame } from "./frame-format.ts";
import { deriveFrameKey, type KeyRing, ratchet } from "./key-ring.ts";

export type Frame = { codec: FrameCodec; bytes: Uint8Array<ArrayBuffer>; isKeyframe: boolean };

/** Why a frame could not be decrypted: it was never encrypted, its key is unknown, or the known key is another one. */
export type DecryptFailure = "not-encrypted" | "unknown-key" | "wrong-key";

/** Encrypts a frame with the sender's current key; null for a frame that must not leave, because it would be readable. */
export async function encryptFrame(ring: KeyRing, frame: Frame): Promise<Uint8Array<ArrayBuffer> | null> {
  // An empty frame is silence without any content.
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

/**
 * Decrypts a frame. If the key does not fit, it is ratcheted up to `ratchets` times, because the sender may have done so;
 * the key that fits replaces the former one.
 */
export async function decryptFrame(
  ring: KeyRing,
  frame: Frame,
  ratchets: number,
): Promise<Uint8Array<ArrayBuffer> | DecryptFailure> {
  if (frame.bytes.length === 0) return frame.bytes;
  const parts = splitEncryptedFrame(frame.codec, frame.bytes, frame.isKeyframe);
  if (!parts) return "not-encrypted";
  const known = ring.get(parts.keyIndex);
  if (!known) return "unknown-key";
  const algorithm = { name: "AES-GCM", iv: parts.iv.slice(), additionalData: parts.clear.slice() };
  const body = parts.body.slice();
  const open = async (key: CryptoKey) => {
    const secret = new Uint8Array(await crypto.subtle.decrypt(algorithm, key, body));
    const plain = new Uint8Array(parts.clear.length + secret.length);
    plain.set(parts.clear);
    plain.set(secret, parts.clear.length);
    return plain;
  };
  let { material, key } = known;
  for (let step = 0; ; step++) {
    try {
      const plain = await open(key);
      if (step > 0) await ring.set(parts.keyIndex, material);
      return plain;
    } catch {
      if (step === ratchets) return "wrong-key";
      material = await ratchet(material);
      key = await deriveFrameKey(material);
    }
  }
}
