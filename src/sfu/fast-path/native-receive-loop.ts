/** The parameters and results of receive-loop.c, in the memory that both share. */
import { ptr } from "bun:ffi";
import type { PacketRing } from "../wire/rtp/packet-ring.ts";
import { type NativeEngine, setPointer } from "./native-engine.ts";
import type { PacketRun, ReceiveBatch } from "./receive-batch.ts";
import { type Descriptor, PACKET_BUFFER_BYTES, type SendBatch } from "./send-batch.ts";
import type { StreamTable } from "./stream-table.ts";

export const MAX_SESSIONS = 512;
const MAX_RECEIVED = 128;
/** receive-loop.c returns when less room than this is left. */
const LEAST_FREE = 16;
/** The packets of a frame arrive within a fraction of a millisecond, so the loop waits this long for the rest after the first. */
const PAUSE_MICROS = 600;
/** Positions in `receive_loop` of fast-path.h, in words of 32 bits, behind the double that it begins with. */
const INPUT = { fd: 2, eventLoop: 3, isV6: 4, waitMs: 5, pauseMicros: 6, sessions: 7, grouping: 8 } as const;
const RESULT = { runs: 9, received: 10, setAside: 11, packetsOut: 12, bytesOut: 13, dropped: 14 } as const;
const IS_STILL = 15;
const FROM_AT = 18;
const FROM_WORDS = 6;
/** The address and the scope. */
const ADDRESS_WORDS = 5;
const FROM = { scope: 4, port: 5 } as const;
const SESSIONS_AT = FROM_AT + MAX_RECEIVED * FROM_WORDS;
const SESSION_WORDS = 10;
const SESSION = { address: 0, streams: 4, receiver: 6, port: 7, bytesIn: 8 } as const;
const RUNS_AT = SESSIONS_AT + MAX_SESSIONS * SESSION_WORDS;
const FORWARDED_RUN_WORDS = 20;
/** Positions in `packet_run`, behind the four words of `forwarded_run` and the double that a run begins with. */
const RUN = {
  stream: 6,
  first: 7,
  count: 8,
  timestamp: 9,
  bytes: 10,
  payloadBytes: 11,
  hasTransportNumber: 12,
  audioLevel: 13,
  vp8Bytes: 14,
  pictureId: 15,
  wide: 16,
  tl0: 17,
  keyIdx: 18,
} as const;
const ASIDE_AT = RUNS_AT + MAX_RECEIVED * FORWARDED_RUN_WORDS;
const ASIDE_WORDS = 4;
const ASIDE = { datagram: 0, session: 1, outcome: 2 } as const;
const WORDS = ASIDE_AT + MAX_RECEIVED * ASIDE_WORDS;
const TEXT_BYTES = 64;
/** Peers come and go, so the table is cleared when it is full. */
const MAX_KNOWN_SENDERS = 4_096;

/** A connection whose packets may come: their address, and what is needed to open and forward them. */
export type LoopSession = {
  readonly receiver: number;
  readonly streams: StreamTable<object>;
  readonly port: number;
  /** As `addressWords` returns it. */
  readonly address: Uint32Array;
};

type WaitTerms = {
  socket: Descriptor;
  /** The descriptor at which the event loop of the thread waits. The wait ends when it becomes readable. */
  eventLoop: number;
  sessions: readonly LoopSession[];
  /** An empty batch, whose memory the loop uses. */
  batch: SendBatch;
  nowMs: number;
  forMs: number;
};

/** The words are signed, because the JIT discards compiled code when it meets an unsigned word above 31 bits. */
type Sender = { readonly words: Int32Array; readonly isV6: boolean; readonly text: string };

/** Each wait overwrites the results of the one before. */
export class NativeReceiveLoop implements ReceiveBatch {
  readonly #native: NativeEngine;
  readonly #words = new Uint32Array(new ArrayBuffer(WORDS * 4));
  readonly #signed = new Int32Array(this.#words.buffer);
  readonly #doubles = new Float64Array(this.#words.buffer);
  readonly #datagrams = new Uint8Array(new ArrayBuffer(MAX_RECEIVED * PACKET_BUFFER_BYTES));
  readonly #text = Buffer.alloc(TEXT_BYTES);
  readonly #run: PacketRun = {
    stream: 0,
    first: 0,
    count: 0,
    extended: 0,
    timestamp: 0,
    bytes: 0,
    payloadBytes: 0,
    hasTransportNumber: false,
    audioLevel: -1,
    vp8: { length: 0, pictureId: -1, wide: false, tl0PicIdx: -1, keyIdx: -1 },
  };
  /** By port: most datagrams come from a peer that has sent before. */
  readonly #senders = new Map<number, Sender>();

  constructor(native: NativeEngine) {
    this.#native = native;
    this.#words[INPUT.grouping] = 1;
    this.#words[INPUT.pauseMicros] = PAUSE_MICROS;
  }

  /** With a replayed trace, time does not pass during a wait. */
  set isStill(isStill: boolean) {
    this.#words[IS_STILL] = isStill ? 1 : 0;
  }

  wait({ socket, eventLoop, sessions, batch, nowMs, forMs }: WaitTerms): void {
    const words = this.#words;
    const { functions, engine } = this.#native;
    this.#doubles[0] = nowMs;
    this.#signed[INPUT.fd] = socket.fd;
    this.#signed[INPUT.eventLoop] = eventLoop;
    words[INPUT.isV6] = socket.isV6 ? 1 : 0;
    words[INPUT.waitMs] = forMs;
    const count = Math.min(sessions.length, MAX_SESSIONS);
    words[INPUT.sessions] = count;
    for (let i = 0; i < count; i++) this.#list(i, sessions[i] as LoopSession);
    const { arena, destinations } = batch;
    functions.stoa_receive_loop(
      engine,
      words,
      this.#datagrams,
      this.#datagrams.length,
      arena,
      arena.length,
      destinations,
    );
  }

  #list(index: number, { receiver, streams, port, address }: LoopSession): void {
    const words = this.#words;
    const at = SESSIONS_AT + index * SESSION_WORDS;
    words.set(address, at + SESSION.address);
    setPointer(words, at + SESSION.streams, ptr(streams.memory));
    words[at + SESSION.receiver] = receiver;
    words[at + SESSION.port] = port;
  }

  get endedAtMs(): number {
    return this.#doubles[0] as number;
  }

  get received(): number {
    return this.#words[RESULT.received] as number;
  }

  /** The wait ended because its memory was full. */
  get isFull(): boolean {
    return this.received > MAX_RECEIVED - LEAST_FREE;
  }

  get packetsOut(): number {
    return this.#words[RESULT.packetsOut] as number;
  }

  get bytesOut(): number {
    return this.#words[RESULT.bytesOut] as number;
  }

  get dropped(): number {
    return this.#words[RESULT.dropped] as number;
  }

  /** The bytes of the packets that were forwarded for a session. */
  bytesFrom(session: number): number {
    return this.#words[SESSIONS_AT + session * SESSION_WORDS + SESSION.bytesIn] as number;
  }

  get runs(): number {
    return this.#words[RESULT.runs] as number;
  }

  runAtMs(run: number): number {
    return this.#doubles[(RUNS_AT + run * FORWARDED_RUN_WORDS) / 2] as number;
  }

  runSession(run: number): number {
    return this.#words[RUNS_AT + run * FORWARDED_RUN_WORDS + 2] as number;
  }

  run(index: number): PacketRun {
    const words = this.#words;
    const signed = this.#signed;
    const at = RUNS_AT + index * FORWARDED_RUN_WORDS;
    const run = this.#run;
    run.extended = this.#doubles[(at + 4) / 2] as number;
    run.stream = words[at + RUN.stream] as number;
    run.first = words[at + RUN.first] as number;
    run.count = words[at + RUN.count] as number;
    run.timestamp = words[at + RUN.timestamp] as number;
    run.bytes = words[at + RUN.bytes] as number;
    run.payloadBytes = words[at + RUN.payloadBytes] as number;
    run.hasTransportNumber = words[at + RUN.hasTransportNumber] !== 0;
    run.audioLevel = signed[at + RUN.audioLevel] as number;
    const { vp8 } = run;
    vp8.length = signed[at + RUN.vp8Bytes] as number;
    vp8.pictureId = signed[at + RUN.pictureId] as number;
    vp8.wide = signed[at + RUN.wide] !== 0;
    vp8.tl0PicIdx = signed[at + RUN.tl0] as number;
    vp8.keyIdx = signed[at + RUN.keyIdx] as number;
    return run;
  }

  /** The number of datagrams that TypeScript has to handle. */
  get setAside(): number {
    return this.#words[RESULT.setAside] as number;
  }

  setAsideDatagram(index: number): number {
    return this.#words[ASIDE_AT + index * ASIDE_WORDS + ASIDE.datagram] as number;
  }

  setAsideSession(index: number): number {
    return this.#words[ASIDE_AT + index * ASIDE_WORDS + ASIDE.session] as number;
  }

  /** 0 when the datagram is untouched, its plain length, or less than 0 when it was refused. */
  setAsideOutcome(index: number): number {
    return this.#signed[ASIDE_AT + index * ASIDE_WORDS + ASIDE.outcome] as number;
  }

  datagram(number: number): Uint8Array<ArrayBuffer> {
    const at = number * PACKET_BUFFER_BYTES;
    return this.#datagrams.slice(at, at + this.#length(number));
  }

  keep(number: number, ring: PacketRing, extended: number, nowMs: number): void {
    ring.put(extended, this.#datagrams, this.#length(number), nowMs, number * PACKET_BUFFER_BYTES);
  }

  /** The length of a forwarded packet once decrypted, or of any other datagram as received. */
  #length(number: number): number {
    return (this.#words[FROM_AT + number * FROM_WORDS + FROM.port] as number) >>> 16;
  }

  portOf(number: number): number {
    return (this.#words[FROM_AT + number * FROM_WORDS + FROM.port] as number) & 0xffff;
  }

  addressOf(number: number, isV6: boolean): string {
    const at = FROM_AT + number * FROM_WORDS;
    const port = this.portOf(number);
    const known = this.#senders.get(port);
    if (known?.isV6 === isV6 && this.#isAt(at, known.words)) return known.text;
    const words = this.#signed.slice(at, at + ADDRESS_WORDS);
    const scope = (words[FROM.scope] as number) >>> 0;
    const length = this.#native.functions.stoa_write_address(words, scope, isV6 ? 1 : 0, this.#text, TEXT_BYTES);
    const text = this.#text.toString("latin1", 0, length);
    if (this.#senders.size >= MAX_KNOWN_SENDERS) this.#senders.clear();
    this.#senders.set(port, { words, isV6, text });
    return text;
  }

  #isAt(at: number, words: Int32Array): boolean {
    for (let i = 0; i < ADDRESS_WORDS; i++) if (this.#signed[at + i] !== words[i]) return false;
    return true;
  }
}
