import { createCipheriv } from "node:crypto";

// Protection profiles and their session keys. `srtp.ts` keeps packet indices and replay windows per SSRC.

/** Encrypts and decrypts packets in place; the caller's buffer has room for the overhead. */
export interface SrtpCipher {
  /** The key's number in native code; 0 when native code does not have it. */
  readonly handle: number;
  readonly rtpOverhead: number;
  readonly rtcpOverhead: number;
  /** Returns the protected length. */
  encryptRtp(data: Uint8Array, headerLength: number, length: number, roc: number, sequenceNumber: number): number;
  /** Encrypts a packet whose header and body are apart into `out`. */
  sealRtp(header: Uint8Array, body: Uint8Array, out: Uint8Array, roc: number, sequenceNumber: number): number;
  /** Returns the plain length, or −1 when authentication fails: then `data` is unchanged. */
  decryptRtp(data: Uint8Array, headerLength: number, length: number, roc: number, sequenceNumber: number): number;
  encryptRtcp(data: Uint8Array, length: number, index: number): number;
  decryptRtcp(data: Uint8Array, length: number, index: number): number;
  /** The offset of the E flag and SRTCP index in a protected packet of this length. */
  rtcpIndexOffset(length: number): number;
  /** Releases the keys. */
  close(): void;
}

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

/** Derives session keys from a DTLS master key (RFC 3711 §4.3, RFC 7714 §11) with key derivation rate 0. */
export function deriveSessionKeys(master: SrtpMasterKey): SrtpSessionKeys {
  const saltBytes = masterSaltBytes(master.profile);
  if (master.key.length !== MASTER_KEY_BYTES || master.salt.length !== saltBytes) {
    throw new RangeError(`SRTP master key of ${master.key.length} and salt of ${master.salt.length} bytes`);
  }
  const derive = (label: number, length: number): Uint8Array => {
    // x = label·2⁴⁸ XOR salt, shifted by the 16 bits of the counter, so the label is in byte 7.
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
