/**
 * Reads SCTP packets in werift's place. werift's parser trusts lengths and counts, and it answers every chunk of a packet however
 * many there are. Data goes to `SctpInbound`; control chunks go to werift's association, at most one of each kind per packet.
 */
import { type Deliver, isAfter, SctpInbound } from "./sctp-inbound.ts";

const COMMON_HEADER_BYTES = 12;
const CHUNK_HEADER_BYTES = 4;
/** Twice the MTU of any path to a client. */
const MAX_PACKET_BYTES = 3_000;
/** The most chunks in a packet of one MTU, with messages of one byte each. */
const MAX_CHUNKS = 64;
const MAX_INIT_PARAMETERS = 16;
/** RFC 6525 §3.1: a request and a response. */
const MAX_RECONFIG_PARAMETERS = 2;
const OUTGOING_RESET = 13;
/** werift's states of an association. */
const STATE = { closed: 1, cookieWait: 2 };

const CHUNK = {
  data: 0,
  init: 1,
  initAck: 2,
  sack: 3,
  heartbeat: 4,
  heartbeatAck: 5,
  abort: 6,
  shutdown: 7,
  shutdownAck: 8,
  error: 9,
  cookieEcho: 10,
  cookieAck: 11,
  shutdownComplete: 14,
  reconfig: 130,
  forwardTsn: 192,
} as const;

type Chunk = { readonly type: number; readonly flags: number; readonly body: Buffer };
type Parameter = [type: number, body: Buffer];
/** The members of werift's chunks that its association reads. */
type ControlChunk = { type: number; body?: Buffer; params?: Parameter[] } & Record<string, unknown>;

export type ReceivingAssociation = {
  readonly isServer: boolean;
  readonly isStopped: boolean;
  readonly associationState: number;
  readonly localVerificationTag: number;
  /** The TSN of the next chunk that is sent. */
  readonly localTsn: number;
  /** The number of the peer's last request to reset streams. */
  reconfigResponseSeq: number;
  advertisedRwnd: number;
  receive: Deliver;
  receiveChunk(chunk: ControlChunk): Promise<void>;
  sendChunk(chunk: { readonly bytes: Buffer }): Promise<void>;
};

export class SctpReceiver {
  readonly #association: ReceivingAssociation;
  /** Null until the peer has named its first TSN. */
  #inbound: SctpInbound | null = null;
  #mustAcknowledge = false;

  constructor(association: ReceivingAssociation) {
    this.#association = association;
  }

  /** For tests. */
  get waiting(): SctpInbound["waiting"] | null {
    return this.#inbound?.waiting ?? null;
  }

  /** DTLS has authenticated the packet, so its checksum is not computed. A malformed packet is dropped as a whole. */
  receive(packet: Buffer): void {
    if (this.#association.isStopped) return;
    const chunks = readChunks(packet);
    if (!chunks || !this.#isOurs(packet, chunks) || !chunks.every((chunk) => this.#isSound(chunk))) return;
    for (const chunk of chunks) this.#receiveChunk(chunk);
    if (!this.#mustAcknowledge || !this.#inbound) return;
    this.#mustAcknowledge = false;
    this.#send(this.#inbound.acknowledge());
  }

  #isOurs(packet: Buffer, chunks: readonly Chunk[]): boolean {
    const { localVerificationTag, isServer, associationState } = this.#association;
    const tag = packet.readUInt32BE(4);
    if (!chunks.some(({ type }) => type === CHUNK.init)) return tag === localVerificationTag;
    // A DTLS connection has one association; an INIT that arrives late must not restart it.
    return isServer && chunks.length === 1 && tag === 0 && associationState === STATE.closed;
  }

  #isSound({ type, body }: Chunk): boolean {
    switch (type) {
      case CHUNK.data:
        return body.length > 12 && this.#inbound !== null;
      case CHUNK.initAck:
        return this.#association.associationState === STATE.cookieWait && isSoundInit(body);
      case CHUNK.init:
        return isSoundInit(body);
      case CHUNK.sack:
        return isSoundSack(body, this.#association.localTsn);
      case CHUNK.reconfig:
        return readParameters(body, MAX_RECONFIG_PARAMETERS) !== null;
      case CHUNK.forwardTsn:
        return body.length >= 4 && body.length % 4 === 0 && this.#inbound !== null;
      default:
        return true;
    }
  }

  #receiveChunk({ type, flags, body }: Chunk): void {
    switch (type) {
      case CHUNK.data:
        this.#mustAcknowledge = true;
        this.#inbound?.add({
          flags,
          tsn: body.readUInt32BE(0),
          streamId: body.readUInt16BE(4),
          streamSequence: body.readUInt16BE(6),
          protocol: body.readUInt32BE(8),
          // A slice would keep the whole packet while a message waits.
          userData: Buffer.from(body.subarray(12)),
        });
        return;
      case CHUNK.forwardTsn:
        this.#mustAcknowledge = true;
        this.#inbound?.skip(body.readUInt32BE(0), readPairs(body.subarray(4)));
        return;
      case CHUNK.init:
      case CHUNK.initAck:
        this.#begin(type, body);
        return;
      case CHUNK.sack:
        this.#control({
          type,
          cumulativeTsn: body.readUInt32BE(0),
          advertisedRwnd: body.readUInt32BE(4),
          gaps: readPairs(body.subarray(12, 12 + 4 * body.readUInt16BE(8))),
        });
        return;
      case CHUNK.heartbeat:
        this.#send(chunkOf(CHUNK.heartbeatAck, body));
        return;
      case CHUNK.reconfig:
        this.#reconfigure(readParameters(body, MAX_RECONFIG_PARAMETERS) ?? []);
        return;
      case CHUNK.abort:
      case CHUNK.shutdown:
      case CHUNK.cookieEcho:
      case CHUNK.cookieAck:
      case CHUNK.shutdownComplete:
        this.#control({ type, body });
    }
  }

  #begin(type: number, body: Buffer): void {
    const initialTsn = body.readUInt32BE(12);
    this.#inbound = new SctpInbound(initialTsn, (...message) => this.#association.receive(...message));
    this.#control({
      type,
      initiateTag: body.readUInt32BE(0),
      advertisedRwnd: body.readUInt32BE(4),
      outboundStreams: body.readUInt16BE(8),
      inboundStreams: body.readUInt16BE(10),
      initialTsn,
      params: readParameters(body.subarray(16), MAX_INIT_PARAMETERS) ?? [],
    });
    // werift counts from -1 when the first TSN is 0.
    this.#association.reconfigResponseSeq >>>= 0;
  }

  #reconfigure(params: Parameter[]): void {
    for (const [type, body] of params) {
      if (type !== OUTGOING_RESET || body.length < 12) continue;
      const isNew = isAfter(body.readUInt32BE(0), this.#association.reconfigResponseSeq >>> 0, 32);
      if (isNew) this.#inbound?.reset(readNumbers(body.subarray(12)));
    }
    this.#control({ type: CHUNK.reconfig, params });
  }

  #control(chunk: ControlChunk): void {
    // An unhandled rejection would end the process.
    this.#association.receiveChunk(chunk).catch(() => {});
  }

  #send(bytes: Buffer): void {
    this.#association.sendChunk({ bytes }).catch(() => {});
  }
}

function readChunks(packet: Buffer): Chunk[] | null {
  if (packet.length < COMMON_HEADER_BYTES || packet.length > MAX_PACKET_BYTES) return null;
  const chunks: Chunk[] = [];
  const seen = new Set<number>();
  for (let at = COMMON_HEADER_BYTES; at + CHUNK_HEADER_BYTES <= packet.length; ) {
    const type = packet[at] as number;
    const length = packet.readUInt16BE(at + 2);
    if (length < CHUNK_HEADER_BYTES || at + length > packet.length || chunks.length === MAX_CHUNKS) return null;
    if (type !== CHUNK.data && seen.has(type)) return null;
    seen.add(type);
    chunks.push({ type, flags: packet[at + 1] as number, body: packet.subarray(at + CHUNK_HEADER_BYTES, at + length) });
    at += padded(length);
  }
  return chunks;
}

/** Returns whether gap blocks are in ascending order and within what was sent. */
function isSoundSack(body: Buffer, localTsn: number): boolean {
  if (body.length < 12) return false;
  const gaps = body.readUInt16BE(8);
  const duplicates = body.readUInt16BE(10);
  if (body.length < 12 + 4 * (gaps + duplicates)) return false;
  const lastSent = (localTsn - 1) >>> 0;
  const cumulativeTsn = body.readUInt32BE(0);
  if (isAfter(cumulativeTsn, lastSent, 32)) return false;
  const outstanding = (lastSent - cumulativeTsn) >>> 0;
  let last = 0;
  for (const [start, end] of readPairs(body.subarray(12, 12 + 4 * gaps))) {
    if (start <= last || end < start || end > outstanding) return false;
    last = end;
  }
  return true;
}

function isSoundInit(body: Buffer): boolean {
  return body.length >= 16 && readParameters(body.subarray(16), MAX_INIT_PARAMETERS) !== null;
}

function readParameters(body: Buffer, max: number): Parameter[] | null {
  const parameters: Parameter[] = [];
  for (let at = 0; at + 4 <= body.length; ) {
    const length = body.readUInt16BE(at + 2);
    if (length < 4 || at + length > body.length || parameters.length === max) return null;
    parameters.push([body.readUInt16BE(at), body.subarray(at + 4, at + length)]);
    at += padded(length);
  }
  return parameters;
}

function readPairs(body: Buffer): [number, number][] {
  const pairs: [number, number][] = [];
  for (let at = 0; at + 4 <= body.length; at += 4) pairs.push([body.readUInt16BE(at), body.readUInt16BE(at + 2)]);
  return pairs;
}

function readNumbers(body: Buffer): number[] {
  const numbers: number[] = [];
  for (let at = 0; at + 2 <= body.length; at += 2) numbers.push(body.readUInt16BE(at));
  return numbers;
}

function chunkOf(type: number, body: Buffer): Buffer {
  const chunk = Buffer.alloc(CHUNK_HEADER_BYTES + padded(body.length));
  chunk[0] = type;
  chunk.writeUInt16BE(CHUNK_HEADER_BYTES + body.length, 2);
  body.copy(chunk, CHUNK_HEADER_BYTES);
  return chunk;
}

const padded = (length: number) => (length + 3) & ~3;
