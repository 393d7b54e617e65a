/** SRTP and SRTCP by native code: the keys of a connection, and its receiving half with packet indices and replay windows. */
import { type IncomingSrtp, MAX_CLIENT_STREAMS, type SrtpRefusals } from "../wire/srtp/srtp.ts";
import { deriveSessionKeys, type SrtpCipher, type SrtpMasterKey } from "../wire/srtp/srtp-cipher.ts";
import type { NativeEngine } from "./native-engine.ts";

const PROFILE_NUMBER = { AEAD_AES_128_GCM: 1, AES_CM_128_HMAC_SHA1_80: 2 } as const;
const INDEX_BYTES = 4;
/** GCM has its tag of 16 bytes before the index of RTCP, CM its 10 bytes behind it. */
const LAYOUT = {
  AEAD_AES_128_GCM: { rtpOverhead: 16, rtcpOverhead: 16 + INDEX_BYTES, tagFirst: true },
  AES_CM_128_HMAC_SHA1_80: { rtpOverhead: 10, rtcpOverhead: 10 + INDEX_BYTES, tagFirst: false },
} as const;
/** The layout of srtp.c: key, salt and HMAC key of RTP, then of RTCP. */
const SALT_AT = 16;
const AUTH_AT = 30;
const HALF_KEY_BYTES = 50;

export class NativeCipher implements SrtpCipher {
  readonly rtpOverhead: number;
  readonly rtcpOverhead: number;
  readonly #native: NativeEngine;
  readonly #indexOffset: SrtpCipher["rtcpIndexOffset"];
  #handle: number;

  constructor(native: NativeEngine, master: SrtpMasterKey) {
    const { rtpKey, rtpSalt, rtpAuth, rtcpKey, rtcpSalt, rtcpAuth } = deriveSessionKeys(master);
    const keys = new Uint8Array(2 * HALF_KEY_BYTES);
    for (const [half, [key, salt, auth]] of [
      [rtpKey, rtpSalt, rtpAuth] as const,
      [rtcpKey, rtcpSalt, rtcpAuth] as const,
    ].entries()) {
      keys.set(key, half * HALF_KEY_BYTES);
      keys.set(salt, half * HALF_KEY_BYTES + SALT_AT);
      keys.set(auth, half * HALF_KEY_BYTES + AUTH_AT);
    }
    this.#native = native;
    const { rtpOverhead, rtcpOverhead, tagFirst } = LAYOUT[master.profile];
    this.rtpOverhead = rtpOverhead;
    this.rtcpOverhead = rtcpOverhead;
    this.#indexOffset = (length) => length - (tagFirst ? INDEX_BYTES : rtcpOverhead);
    const profile = PROFILE_NUMBER[master.profile];
    this.#handle = native.functions.stoa_add_cipher(native.engine, profile, keys, keys.length);
    keys.fill(0);
    if (this.#handle === 0) throw new Error("there is no room for another SRTP key");
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
    const { functions, engine } = this.#native;
    return functions.stoa_protect_rtcp(engine, this.#handle, data, data.length, length, index);
  }

  decryptRtcp(data: Uint8Array, length: number, index: number): number {
    const { functions, engine } = this.#native;
    return functions.stoa_unprotect_rtcp(engine, this.#handle, data, data.length, length, index);
  }

  rtcpIndexOffset(length: number): number {
    return this.#indexOffset(length);
  }

  close(): void {
    this.#native.functions.stoa_remove_cipher(this.#native.engine, this.#handle);
    this.#handle = 0;
  }
}

/** By the negated outcome of fast-path.h. */
const REASONS = [null, "malformed", "replayed", "unauthentic", "tooManyStreams"] as const;

export class NativeReceiver implements IncomingSrtp {
  readonly refusals: SrtpRefusals = { malformed: 0, replayed: 0, unauthentic: 0, tooManyStreams: 0 };
  readonly #native: NativeEngine;
  readonly #cipher: NativeCipher;
  #handle: number;

  constructor(native: NativeEngine, master: SrtpMasterKey, maxStreams = MAX_CLIENT_STREAMS) {
    this.#native = native;
    this.#cipher = new NativeCipher(native, master);
    this.#handle = native.functions.stoa_add_receiver(native.engine, this.#cipher.handle, maxStreams);
    if (this.#handle !== 0) return;
    this.#cipher.close();
    throw new Error("there is no room for another SRTP receiver");
  }

  unprotectRtp(data: Uint8Array, length = data.length): number {
    const { functions, engine } = this.#native;
    return this.#outcome(functions.stoa_receive_rtp(engine, this.#handle, data, data.length, length));
  }

  unprotectRtcp(data: Uint8Array, length = data.length): number {
    const { functions, engine } = this.#native;
    return this.#outcome(functions.stoa_receive_rtcp(engine, this.#handle, data, data.length, length));
  }

  forget(ssrc: number): void {
    this.#native.functions.stoa_forget_stream(this.#native.engine, this.#handle, ssrc);
  }

  get handle(): number {
    return this.#handle;
  }

  refused(outcome: number): void {
    this.#outcome(outcome);
  }

  #outcome(plain: number): number {
    if (plain >= 0) return plain;
    const reason = REASONS[-plain];
    if (reason) this.refusals[reason] += 1;
    return -1;
  }

  close(): void {
    this.#native.functions.stoa_remove_receiver(this.#native.engine, this.#handle);
    this.#handle = 0;
    this.#cipher.close();
  }
}
