// SRTP session keys from DTLS master keys (RFC 3711 §4.3, RFC 7714 §11), key derivation rate 0.

import { createCipheriv } from "node:crypto";

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
