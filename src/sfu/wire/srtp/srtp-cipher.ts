import { createCipheriv } from "node:crypto";

// What a protection profile does to one packet. Everything happens in place; the caller's buffer has room for
// the overhead. Indices, windows and SSRCs are the business of `srtp.ts`.

export interface SrtpCipher {
  /** Number of the key in native code; 0: it is not there. */
  readonly handle: number;
  readonly rtpOverhead: number;
  readonly rtcpOverhead: number;
  /** Returns the protected length. */
  encryptRtp(data: Uint8Array, headerLength: number, length: number, roc: number, sequenceNumber: number): number;
  /** The same for a packet that is in two pieces, put together in `out`. */
  sealRtp(header: Uint8Array, body: Uint8Array, out: Uint8Array, roc: number, sequenceNumber: number): number;
  /** Returns the plain length, or −1 when authentication fails: then `data` is unchanged. */
  decryptRtp(data: Uint8Array, headerLength: number, length: number, roc: number, sequenceNumber: number): number;
  encryptRtcp(data: Uint8Array, length: number, index: number): number;
  decryptRtcp(data: Uint8Array, length: number, index: number): number;
  /** Where the E flag and SRTCP index lie in a protected packet of that length. */
  rtcpIndexOffset(length: number): number;
  /** Lets go of the keys: it is not used afterwards. */
  close(): void;
}

// SRTP session keys from DTLS master keys (RFC 3711 §4.3, RFC 7714 §11), key derivation rate 0.

export type SrtpProfile = "AEAD_AES_128_GCM" | "AES_CM_128_HMAC_SHA1_80";

/** One direction's master key, as exported from DTLS. */
export interface SrtpMasterKey {
  profile: SrtpProfile;
  /** 16 bytes. */
  key: Uint8Array;
  /** 12 bytes for GCM, 14 for CM. */
  salt: Uint8Array;
}

export interface SrtpSessionKeys {
  rtpKey: Uint8Array;
  rtpSalt: Uint8Array;
  rtcpKey: Uint8Array;
  rtcpSalt: Uint8Array;
  /** HMAC-SHA1 keys of 20 bytes; unused by GCM. */
  rtpAuth: Uint8Array;
  rtcpAuth: Uint8Array;
}

export const MASTER_KEY_BYTES = 16;

export function masterSaltBytes(profile: SrtpProfile): number {
  return profile === "AEAD_AES_128_GCM" ? 12 : 14;
}

const LABEL = { rtpKey: 0, rtpAuth: 1, rtpSalt: 2, rtcpKey: 3, rtcpAuth: 4, rtcpSalt: 5 } as const;

export function deriveSessionKeys(master: SrtpMasterKey): SrtpSessionKeys {
  const saltBytes = masterSaltBytes(master.profile);
  if (master.key.length !== MASTER_KEY_BYTES || master.salt.length !== saltBytes) {
    throw new RangeError(`SRTP master key of ${master.key.length} and salt of ${master.salt.length} bytes`);
  }
  const derive = (label: number, length: number): Uint8Array => {
    // x = label·2⁴⁸ XOR salt, shifted by the 16 bits of the counter: the label lands on byte 7.
    const iv = new Uint8Array(16);
    iv.set(master.salt);
    iv[7] = (iv[7] as number) ^ label;
    return new Uint8Array(createCipheriv("aes-128-ctr", master.key, iv).update(new Uint8Array(length)));
  };
  return {
    rtpKey: derive(LABEL.rtpKey, 16),
    rtpSalt: derive(LABEL.rtpSalt, saltBytes),
    rtpAuth: derive(LABEL.rtpAuth, 20),
    rtcpKey: derive(LABEL.rtcpKey, 16),
    rtcpSalt: derive(LABEL.rtcpSalt, saltBytes),
    rtcpAuth: derive(LABEL.rtcpAuth, 20),
  };
}
