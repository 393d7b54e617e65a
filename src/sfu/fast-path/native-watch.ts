// What watch.c was asked, and what it has answered, in the memory that both know.

import { ptr } from "bun:ffi";
import { SEND_SLOT_BYTES } from "../forwarding/send-batch.ts";
import { MAX_TAKE, type TakenRun } from "../forwarding/take.ts";
import { MAX_SESSIONS, type Watch } from "../forwarding/watch.ts";
import type { PacketRing } from "../wire/rtp/packet-ring.ts";
import type { NativeEngine } from "./library.ts";
import { SOURCE_WORDS } from "./native-fan-out-alike.ts";
import { emptyRun, RUN_WORDS, readRun } from "./native-take.ts";

const MAX_WATCHED = 128;
/** A frame's packets come within a fraction of a millisecond: so long is waited for the others after the first. */
const PAUSE_MICROS = 600;
/** Places in `watch` of native.h, in words of 32 bits. It begins with a double. */
const ASKED = { fd: 2, loop: 3, isV6: 4, waitMs: 5, pauseMicros: 6, sessions: 7, grouping: 8 } as const;
const FOUND = { runs: 9, taken: 10, received: 11, restSession: 12, outcome: 13 } as const;
const SENT = { packets: 14, bytes: 15, dropped: 16 } as const;
const ASIDE = 17;
const STILL = 18;
const PATIENCE = 20;
const FROM_AT = 22;
const FROM_WORDS = 6;
/** With the network link that it means something on; 0: on all. */
const ADDRESS_WORDS = 5;
const FROM = { scope: 4, port: 5 } as const;
const SESSIONS_AT = FROM_AT + MAX_WATCHED * FROM_WORDS;
const SESSION_WORDS = 10;
const SESSION = { address: 0, streams: 4, receiver: 6, port: 7, bytesIn: 8 } as const;
const RUNS_AT = SESSIONS_AT + MAX_SESSIONS * SESSION_WORDS;
const WATCHED_RUN_WORDS = 4 + RUN_WORDS;
const ASIDE_AT = RUNS_AT + MAX_WATCHED * WATCHED_RUN_WORDS;
const LAID_ASIDE_WORDS = 6;
/** Behind the double that it begins with. */
const LAID_ASIDE = { slot: 2, session: 3, outcome: 4 } as const;
/** `taking` of native.h, which is of no concern here. */
const TAKING_WORDS = 8 + MAX_TAKE * (3 + RUN_WORDS + SOURCE_WORDS);
const WORDS = ASIDE_AT + MAX_WATCHED * LAID_ASIDE_WORDS + TAKING_WORDS;
const WORD = 0x100000000;
const TEXT_BYTES = 64;
/** Peers come and go: the table is begun anew rather than tended. */
const MAX_KNOWN_NAMES = 4_096;

/** An address, in words and as it is written. With a sign: compiled code that meets one beyond 31 bits without it is thrown away. */
type Name = { readonly words: Int32Array; readonly isV6: boolean; readonly text: string };

export class NativeWatch implements Watch {
  readonly #native: NativeEngine;
  readonly #words = new Uint32Array(new ArrayBuffer(WORDS * 4));
  readonly #signed = new Int32Array(this.#words.buffer);
  readonly #doubles = new Float64Array(this.#words.buffer);
  readonly #slots = new Uint8Array(new ArrayBuffer(MAX_WATCHED * SEND_SLOT_BYTES));
  readonly #lent = Buffer.from(this.#slots.buffer);
  readonly #text = Buffer.alloc(TEXT_BYTES);
  readonly #run = emptyRun();
  /** By port, of those who sent lately: most who send have sent before. */
  readonly #names = new Map<number, Name>();
  readonly sent = { packets: 0, bytes: 0, dropped: 0 };

  constructor(native: NativeEngine) {
    this.#native = native;
    this.#words[ASKED.grouping] = 1;
    this.#words[ASKED.pauseMicros] = PAUSE_MICROS;
  }

  /** For a trace that is played: what comes during a watch comes at its beginning. */
  set isStill(still: boolean) {
    this.#words[STILL] = still ? 1 : 0;
  }

  /** A field, so that a rehearsal which puts another in its place leaves the object of the same shape: compiled code knows it by that. */
  wait: Watch["wait"] = ({ socket, loop, sessions, batch, nowMs, forMs, patienceMs }) => {
    const words = this.#words;
    const { functions, engine } = this.#native;
    this.#doubles[0] = nowMs;
    this.#signed[ASKED.fd] = socket.fd;
    this.#signed[ASKED.loop] = loop;
    words[ASKED.isV6] = socket.isV6 ? 1 : 0;
    words[ASKED.waitMs] = forMs;
    words[PATIENCE] = patienceMs;
    const count = Math.min(sessions.length, MAX_SESSIONS);
    words[ASKED.sessions] = count;
    for (let i = 0; i < count; i++) this.#list(i, sessions[i] as Parameters<Watch["wait"]>[0]["sessions"][number]);
    const { arena, destinations } = batch;
    functions.stoa_watch(engine, words, this.#slots, this.#slots.length, arena, arena.length, destinations);
    this.sent.packets = words[SENT.packets] as number;
    this.sent.bytes = words[SENT.bytes] as number;
    this.sent.dropped = words[SENT.dropped] as number;
  };

  #list(index: number, { receiver, lanes, port, address }: Parameters<Watch["wait"]>[0]["sessions"][number]): void {
    const words = this.#words;
    const at = SESSIONS_AT + index * SESSION_WORDS;
    const memory = ptr(lanes.memory);
    words.set(address, at + SESSION.address);
    words[at + SESSION.streams] = memory % WORD;
    words[at + SESSION.streams + 1] = Math.floor(memory / WORD);
    words[at + SESSION.receiver] = receiver;
    words[at + SESSION.port] = port;
  }

  /** They are received here, not handed over. */
  begin(): void {}

  get runs(): number {
    return this.#words[FOUND.runs] as number;
  }

  #runAt(index: number): number {
    return RUNS_AT + index * WATCHED_RUN_WORDS;
  }

  cameAtMs(run: number): number {
    return this.#doubles[this.#runAt(run) / 2] as number;
  }

  sessionOf(run: number): number {
    return this.#words[this.#runAt(run) + 2] as number;
  }

  run(index: number): TakenRun {
    return readRun(this.#words, this.#signed, this.#doubles, this.#runAt(index) + 4, this.#run);
  }

  get endedAtMs(): number {
    return this.#doubles[0] as number;
  }

  bytesFrom(session: number): number {
    return this.#words[SESSIONS_AT + session * SESSION_WORDS + SESSION.bytesIn] as number;
  }

  get outcome(): number {
    return this.#signed[FOUND.outcome] as number;
  }

  get taken(): number {
    return this.#words[FOUND.taken] as number;
  }

  get received(): number {
    return this.#words[FOUND.received] as number;
  }

  get reports(): number {
    return this.#words[ASIDE] as number;
  }

  reportCameAtMs(report: number): number {
    return this.#doubles[(ASIDE_AT + report * LAID_ASIDE_WORDS) / 2] as number;
  }

  report(report: number): Buffer {
    const index = this.reportAt(report);
    const at = index * SEND_SLOT_BYTES;
    return this.#lent.subarray(at, at + this.plainLength(index));
  }

  reportAt(report: number): number {
    return this.#words[ASIDE_AT + report * LAID_ASIDE_WORDS + LAID_ASIDE.slot] as number;
  }

  reportSession(report: number): number {
    return this.#words[ASIDE_AT + report * LAID_ASIDE_WORDS + LAID_ASIDE.session] as number;
  }

  reportOutcome(report: number): number {
    return this.#signed[ASIDE_AT + report * LAID_ASIDE_WORDS + LAID_ASIDE.outcome] as number;
  }

  get restSession(): number {
    return this.#words[FOUND.restSession] as number;
  }

  /** A copy: the slot is used again, and whoever gets a packet keeps it. */
  datagram(index: number): Uint8Array<ArrayBuffer> {
    const at = index * SEND_SLOT_BYTES;
    return this.#slots.slice(at, at + this.plainLength(index));
  }

  keep(index: number, ring: PacketRing, extended: number, nowMs: number): void {
    ring.put(extended, this.#slots, this.plainLength(index), nowMs, index * SEND_SLOT_BYTES);
  }

  /** Of those that were taken; of the others, as they came. */
  plainLength(index: number): number {
    return (this.#words[FROM_AT + index * FROM_WORDS + FROM.port] as number) >>> 16;
  }

  portOf(datagram: number): number {
    return (this.#words[FROM_AT + datagram * FROM_WORDS + FROM.port] as number) & 0xffff;
  }

  addressOf(datagram: number, isV6: boolean): string {
    const at = FROM_AT + datagram * FROM_WORDS;
    const port = this.portOf(datagram);
    const known = this.#names.get(port);
    if (known?.isV6 === isV6 && this.#isAt(at, known.words)) return known.text;
    const words = this.#signed.slice(at, at + ADDRESS_WORDS);
    const [scope, version] = [(words[FROM.scope] as number) >>> 0, isV6 ? 1 : 0];
    const length = this.#native.functions.stoa_write_address(words, scope, version, this.#text, TEXT_BYTES);
    const text = this.#text.toString("latin1", 0, length);
    if (this.#names.size >= MAX_KNOWN_NAMES) this.#names.clear();
    this.#names.set(port, { words, isV6, text });
    return text;
  }

  #isAt(at: number, words: Int32Array): boolean {
    for (let i = 0; i < ADDRESS_WORDS; i++) if (this.#signed[at + i] !== words[i]) return false;
    return true;
  }

  /** The copies have been sent. */
  fanOut(): void {}
}
