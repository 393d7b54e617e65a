// SRTP by libcrypto. RTCP is rare, and left to TypeScript.

import { createSrtpCipher } from "../srtp/srtp.ts";
import type { SrtpCipher } from "../srtp/srtp-cipher.ts";
import { deriveSessionKeys, type SrtpMasterKey } from "../srtp/srtp-keys.ts";
import type { NativeEngine } from "./library.ts";

const PROFILE_NUMBER = { AEAD_AES_128_GCM: 1, AES_CM_128_HMAC_SHA1_80: 2 } as const;
const SALT_AT = 16;
const AUTH_AT = 30;
const KEY_BYTES = 50;

export class NativeCipher implements SrtpCipher {
  readonly rtpOverhead: number;
  readonly rtcpOverhead: number;
  readonly #native: NativeEngine;
  readonly #rtcp: SrtpCipher;
  #handle: number;

  constructor(native: NativeEngine, master: SrtpMasterKey) {
    const { rtpKey, rtpSalt, rtpAuth } = deriveSessionKeys(master);
    const keys = new Uint8Array(KEY_BYTES);
    keys.set(rtpKey);
    keys.set(rtpSalt, SALT_AT);
    keys.set(rtpAuth, AUTH_AT);
    this.#native = native;
    this.#rtcp = createSrtpCipher(master);
    this.rtpOverhead = this.#rtcp.rtpOverhead;
    this.rtcpOverhead = this.#rtcp.rtcpOverhead;
    const profile = PROFILE_NUMBER[master.profile];
    this.#handle = native.functions.stoa_add_cipher(native.engine, profile, keys, KEY_BYTES);
    keys.fill(0);
    if (this.#handle === 0) throw new Error("no room for another SRTP key");
  }

  get handle(): number {
    return this.#handle;
  }

  encryptRtp(data: Uint8Array, headerLength: number, length: number, roc: number): number {
    const { functions, engine } = this.#native;
    return functions.stoa_protect(engine, this.#handle, data, data.length, headerLength, length, roc);
  }

  sealRtp(header: Uint8Array, body: Uint8Array, out: Uint8Array, roc: number): number {
    out.set(header);
    out.set(body, header.length);
    return this.encryptRtp(out, header.length, header.length + body.length, roc);
  }

  decryptRtp(data: Uint8Array, headerLength: number, length: number, roc: number): number {
    const { functions, engine } = this.#native;
    return functions.stoa_unprotect(engine, this.#handle, data, data.length, headerLength, length, roc);
  }

  encryptRtcp(data: Uint8Array, length: number, index: number): number {
    return this.#rtcp.encryptRtcp(data, length, index);
  }

  decryptRtcp(data: Uint8Array, length: number, index: number): number {
    return this.#rtcp.decryptRtcp(data, length, index);
  }

  rtcpIndexOffset(length: number): number {
    return this.#rtcp.rtcpIndexOffset(length);
  }

  close(): void {
    this.#native.functions.stoa_remove_cipher(this.#native.engine, this.#handle);
    this.#handle = 0;
  }
}
