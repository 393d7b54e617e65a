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
