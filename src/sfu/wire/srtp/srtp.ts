// SRTP and SRTCP of one connection, one object per direction: packet indices and replay windows per SSRC, and the cipher of the
// negotiated protection profile. Packets are protected and unprotected in place.

import { readUint16, readUint32 } from "../rtp/bytes.ts";
import { rtpHeaderLength } from "../rtp/rtp.ts";
import { deriveSessionKeys, type SrtpCipher, type SrtpMasterKey } from "./srtp-cipher.ts";
import { CmCipher } from "./srtp-cm.ts";
import { GcmCipher } from "./srtp-gcm.ts";

export type { SrtpMasterKey, SrtpProfile } from "./srtp-cipher.ts";

/** Bursts are reordered by more than RFC 3711's minimum of 64. */
const RTP_WINDOW = 1024;
const RTCP_WINDOW = 128;
/** Bounds the memory that an authenticated peer can claim with ever new SSRCs. */
export const MAX_CLIENT_STREAMS = 512;

export function createSrtpCipher(master: SrtpMasterKey): SrtpCipher {
  const keys = deriveSessionKeys(master);
  switch (master.profile) {
    case "AEAD_AES_128_GCM":
      return new GcmCipher(keys);
    case "AES_CM_128_HMAC_SHA1_80":
      return new CmCipher(keys);
  }
}

/** The most that `protectRtp` and `protectRtcp` add to a packet. */
export const SRTP_MAX_OVERHEAD = 20;

type CreateCipher = (master: SrtpMasterKey) => SrtpCipher;

export class SrtpSender {
  readonly cipher: SrtpCipher;
  readonly #streams = new Map<number, { highest: number }>();
  #rtcpIndex = 0;

  constructor(master: SrtpMasterKey, createCipher: CreateCipher = createSrtpCipher) {
    this.cipher = createCipher(master);
  }

  /**
   * Protects the packet at the start of `data`, which must have room for SRTP_MAX_OVERHEAD more bytes, and returns its new
   * length. A sequence number may be sent again only with the same bytes: under GCM another plaintext or header with the same
   * number would reveal the authentication key.
   */
  protectRtp(data: Uint8Array, headerLength: number, length: number): number {
    const sequenceNumber = readUint16(data, 2);
    const rollover = this.rollover(readUint32(data, 8), sequenceNumber);
    return this.cipher.encryptRtp(data, headerLength, length, rollover, sequenceNumber);
  }

  /** The rollover counter of this SSRC for the packet that is about to be sent. */
  rollover(ssrc: number, sequenceNumber: number): number {
    const stream = this.#streams.get(ssrc);
    if (stream === undefined) {
      this.#streams.set(ssrc, { highest: sequenceNumber });
      return 0;
    }
    const index = Math.max(0, estimateIndex(stream.highest, sequenceNumber));
    if (index > stream.highest) stream.highest = index;
    return Math.floor(index / 0x10000);
  }

  /** Records that packets of this SSRC up to this index were protected with the cipher directly. */
  advanceTo(ssrc: number, index: number): void {
    const stream = this.#streams.get(ssrc);
    if (stream === undefined) this.#streams.set(ssrc, { highest: index });
    else if (index > stream.highest) stream.highest = index;
  }

  /** The stream has ended, and none with its SSRC follows under this key. */
  forget(ssrc: number): void {
    this.#streams.delete(ssrc);
  }

  protectRtcp(data: Uint8Array, length: number): number {
    const index = this.#rtcpIndex;
    this.#rtcpIndex = (index + 1) & 0x7fffffff;
    return this.cipher.encryptRtcp(data, length, index);
  }

  close(): void {
    this.cipher.close();
  }
}

export interface SrtpRefusals {
  malformed: number;
  replayed: number;
  unauthentic: number;
  tooManyStreams: number;
}

/** The receiving half of a connection. */
export interface IncomingSrtp {
  readonly refusals: SrtpRefusals;
  /** Decrypts the packet in place and returns its plain length, or −1 when it is refused: then only a counter changes. */
  unprotectRtp(data: Uint8Array, length?: number): number;
  unprotectRtcp(data: Uint8Array, length?: number): number;
  /** The stream has ended, and none with its SSRC follows under this key. */
  forget(ssrc: number): void;
  /** The number by which native code knows this receiver, and the report of a packet that native code refused. */
  readonly handle?: number;
  refused?(outcome: number): void;
  close(): void;
}

export class SrtpReceiver implements IncomingSrtp {
  readonly #cipher: SrtpCipher;
  readonly #rtp = new Map<number, ReplayWindow>();
  readonly #rtcp = new Map<number, ReplayWindow>();
  readonly refusals: SrtpRefusals = { malformed: 0, replayed: 0, unauthentic: 0, tooManyStreams: 0 };

  readonly #maxStreams: number;

  constructor(
    master: SrtpMasterKey,
    createCipher: CreateCipher = createSrtpCipher,
    maxStreams: number = MAX_CLIENT_STREAMS,
  ) {
    this.#cipher = createCipher(master);
    this.#maxStreams = maxStreams;
  }

  forget(ssrc: number): void {
    this.#rtp.delete(ssrc);
    this.#rtcp.delete(ssrc);
  }

  unprotectRtp(data: Uint8Array, length = data.length): number {
    const headerLength = rtpHeaderLength(data, length);
    if (headerLength < 0 || length - this.#cipher.rtpOverhead < headerLength) return this.#refuse("malformed");
    const ssrc = readUint32(data, 8);
    const sequenceNumber = readUint16(data, 2);
    const window = this.#rtp.get(ssrc);
    const index = window === undefined ? sequenceNumber : estimateIndex(window.highest, sequenceNumber);
    if (index < 0 || window?.isFresh(index) === false) return this.#refuse("replayed");
    if (window === undefined && this.#rtp.size >= this.#maxStreams) return this.#refuse("tooManyStreams");
    const plain = this.#cipher.decryptRtp(data, headerLength, length, Math.floor(index / 0x10000), sequenceNumber);
    if (plain < 0) return this.#refuse("unauthentic");
    accept(this.#rtp, ssrc, window, RTP_WINDOW, index);
    return plain;
  }

  unprotectRtcp(data: Uint8Array, length = data.length): number {
    if (length < 8 + this.#cipher.rtcpOverhead) return this.#refuse("malformed");
    const word = readUint32(data, this.#cipher.rtcpIndexOffset(length));
    // WebRTC encrypts all RTCP, so a packet without the E flag is refused.
    if (word < 0x80000000) return this.#refuse("malformed");
    const index = word - 0x80000000;
    const ssrc = readUint32(data, 4);
    const window = this.#rtcp.get(ssrc);
    if (window?.isFresh(index) === false) return this.#refuse("replayed");
    if (window === undefined && this.#rtcp.size >= this.#maxStreams) return this.#refuse("tooManyStreams");
    const plain = this.#cipher.decryptRtcp(data, length, index);
    if (plain < 0) return this.#refuse("unauthentic");
    accept(this.#rtcp, ssrc, window, RTCP_WINDOW, index);
    return plain;
  }

  close(): void {
    this.#cipher.close();
  }

  #refuse(reason: keyof SrtpRefusals): -1 {
    this.refusals[reason] += 1;
    return -1;
  }
}

function accept(
  windows: Map<number, ReplayWindow>,
  ssrc: number,
  known: ReplayWindow | undefined,
  size: number,
  index: number,
): void {
  const window = known ?? new ReplayWindow(size);
  if (known === undefined) windows.set(ssrc, window);
  window.accept(index);
}

const CYCLE = 0x10000;
const HALF = 0x8000;

/** The packet index ROC·2¹⁶ + SEQ (RFC 3711, appendix A), or −1 for a packet from before the first cycle. */
function estimateIndex(highest: number, sequenceNumber: number): number {
  const last = highest % CYCLE;
  const cycleStart = highest - last;
  let index = cycleStart + sequenceNumber;
  if (last < HALF) {
    if (sequenceNumber - last > HALF) index -= CYCLE;
  } else if (last - HALF > sequenceNumber) {
    index += CYCLE;
  }
  return index < 0 ? -1 : index;
}

/** The replay window of one SSRC: the last `size` indices, a power of two and at least 64 (RFC 3711 §3.3.2). */
class ReplayWindow {
  readonly #bits: Uint32Array;
  readonly #size: number;
  #highest = -1;

  constructor(size: number) {
    this.#size = size;
    this.#bits = new Uint32Array(size >> 5);
  }

  /** −1 before the first packet. */
  get highest(): number {
    return this.#highest;
  }

  /** Is false for an index that was accepted before or is too old. */
  isFresh(index: number): boolean {
    if (index > this.#highest) return true;
    if (this.#highest - index >= this.#size) return false;
    const bit = index & (this.#size - 1);
    return ((this.#bits[bit >> 5] as number) & (1 << (bit & 31))) === 0;
  }

  /** Must be called only for authenticated packets, because a forged one must not move the window. */
  accept(index: number): void {
    if (index > this.#highest) {
      const ahead = index - this.#highest;
      if (this.#highest < 0 || ahead >= this.#size) this.#bits.fill(0);
      else for (let skipped = this.#highest + 1; skipped < index; skipped++) this.#clear(skipped);
      this.#highest = index;
    }
    const bit = index & (this.#size - 1);
    this.#bits[bit >> 5] = (this.#bits[bit >> 5] as number) | (1 << (bit & 31));
  }

  #clear(index: number): void {
    const bit = index & (this.#size - 1);
    this.#bits[bit >> 5] = (this.#bits[bit >> 5] as number) & ~(1 << (bit & 31));
  }
}
