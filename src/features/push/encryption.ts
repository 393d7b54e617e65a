import { createCipheriv, createECDH, hkdfSync, randomBytes } from "node:crypto";

/** Message Encryption for Web Push: RFC 8291, over the content coding aes128gcm of RFC 8188. */

const CURVE = "prime256v1";
const RECORD_BYTES = 4096;
const SALT_BYTES = 16;
const TAG_BYTES = 16;
const POINT_BYTES = 65;
const HEADER_BYTES = SALT_BYTES + 4 + 1 + POINT_BYTES;
/** Push services accept 4096 bytes including header, tag and delimiter. */
export const MAX_PLAINTEXT_BYTES = RECORD_BYTES - HEADER_BYTES - TAG_BYTES - 1;

/** The keys of a browser's push subscription. */
type ReceiverKeys = { p256dh: Uint8Array; auth: Uint8Array };
/** Random for every message; tests set them to compare the result with a test vector. */
type OneTimeValues = { privateKey?: Uint8Array; salt?: Uint8Array };

/** One record that only the browser with these keys can decrypt. Throws for a key that is not on the curve. */
export function encryptPush(
  plaintext: Uint8Array,
  { p256dh, auth }: ReceiverKeys,
  oneTime: OneTimeValues = {},
): Buffer {
  if (plaintext.length > MAX_PLAINTEXT_BYTES) throw new RangeError("the payload does not fit into a push message");
  const sender = createECDH(CURVE);
  if (oneTime.privateKey) sender.setPrivateKey(oneTime.privateKey);
  else sender.generateKeys();
  const senderKey = sender.getPublicKey();
  const salt = oneTime.salt ?? randomBytes(SALT_BYTES);

  const shared = sender.computeSecret(p256dh);
  const keyInfo = Buffer.concat([Buffer.from("WebPush: info\0"), p256dh, senderKey]);
  const secret = Buffer.from(hkdfSync("sha256", shared, auth, keyInfo, 32));
  const key = Buffer.from(hkdfSync("sha256", secret, salt, "Content-Encoding: aes128gcm\0", 16));
  const nonce = Buffer.from(hkdfSync("sha256", secret, salt, "Content-Encoding: nonce\0", 12));

  const header = Buffer.alloc(SALT_BYTES + 5);
  header.set(salt);
  header.writeUInt32BE(RECORD_BYTES, SALT_BYTES);
  header.writeUInt8(senderKey.length, SALT_BYTES + 4);
  const cipher = createCipheriv("aes-128-gcm", key, nonce);
  // The delimiter 2 marks the last record.
  const sealed = Buffer.concat([cipher.update(plaintext), cipher.update(Buffer.of(2)), cipher.final()]);
  return Buffer.concat([header, senderKey, sealed, cipher.getAuthTag()]);
}

/** Null unless the keys are a point on the curve of 65 bytes and a secret of 16 bytes. */
export function receiverKeys(p256dh: string, auth: string): ReceiverKeys | null {
  const keys = { p256dh: Buffer.from(p256dh, "base64url"), auth: Buffer.from(auth, "base64url") };
  if (keys.p256dh.length !== POINT_BYTES || keys.p256dh[0] !== 4 || keys.auth.length !== 16) return null;
  try {
    encryptPush(Buffer.of(), keys);
    return keys;
  } catch {
    return null;
  }
}
