/**
 * Decides when native code waits at the media socket in place of the event loop of this thread, and applies what it has done meanwhile.
 * The event loop runs as soon as it has anything to do, at every tick, and with every datagram that TypeScript has to handle.
 * Forwarded packets are accounted for before anything else runs, so that no code ever sees packets that have left and were not counted.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { type LoopSession, MAX_SESSIONS, type NativeReceiveLoop } from "./native-receive-loop.ts";
import type { PacketRun, ReceiveBatch } from "./receive-batch.ts";
import type { Descriptor, SendBatch } from "./send-batch.ts";

/** Timers of the event loop may be late by up to this time. */
const MAX_WAIT_MS = 100;
/** After this long without a forwarded packet, waiting is not worthwhile. */
const QUIET_MS = 150;
/** A call or a handshake may need timers that must not be late. */
const AWAKE_MS = 100;

/**
 * Over this many waits that ended early, each has to receive one datagram on average, plus one for every so many sessions.
 * Otherwise the event loop has so much else to do that it handles everything for a while.
 */
const WAITS_WEIGHED = 64;
const SESSIONS_PER_DATAGRAM = 4;
const PAUSED_MS = 1_000;

/** A connection that sends media. */
export interface LoopSource {
  /** Null while native code cannot forward its packets. */
  session(): LoopSession | null;
  applyDeferredAccounting(run: PacketRun, batch: ReceiveBatch, nowMs: number): void;
  /** Handles a packet that native code has opened or refused. */
  receiveOpened(data: Buffer, outcome: number, nowMs: number): void;
  countBytes(bytes: number): void;
}

export type ReceiveLoopHost = {
  now(): number;
  readonly ticker: { dueInMs(nowMs: number): number; packetReceived(nowMs: number): void };
  /** Calls `run` once the event loop has run. */
  schedule(run: () => void): void;
};

export type ReceiveLoopParts = {
  native: NativeReceiveLoop;
  socket: Descriptor;
  batch: SendBatch;
  host: ReceiveLoopHost;
  onDatagram(data: Buffer, port: number, address: string): void;
  onFault(error: unknown): void;
  /** Sends what is queued; returns false while packets are left. */
  flush(): boolean;
  countIn(packets: number, bytes: number): void;
  countOut(packets: number, bytes: number, dropped: number): void;
};

export class ReceiveLoop {
  readonly #parts: ReceiveLoopParts;
  readonly #eventLoop: number | null;
  readonly #known = new Set<LoopSource>();
  readonly #sources: LoopSource[] = [];
  readonly #sessions: LoopSession[] = [];
  #mediaAtMs = 0;
  #awakeUntilMs = 0;
  /** The waits that ended early, and the datagrams received during them minus the cost of the waits. */
  #waits = 0;
  #gained = 0;
  #isScheduled = false;
  #isClosed = false;

  constructor(parts: ReceiveLoopParts) {
    this.#parts = parts;
    this.#eventLoop = findEventLoop(parts.socket.fd);
    this.#isClosed = this.#eventLoop === null;
  }

  /** Called with every packet of media that the event loop has received. */
  mediaReceived(source: LoopSource, nowMs: number): void {
    if (this.#isClosed || nowMs < this.#awakeUntilMs) return;
    this.#mediaAtMs = nowMs;
    this.#known.add(source);
    this.#schedule();
  }

  forget(source: LoopSource): void {
    this.#known.delete(source);
  }

  /** Stops the native wait for `forMs`, so that the event loop receives all packets and runs its timers. */
  stayAwake(nowMs: number, forMs = AWAKE_MS): void {
    this.#awakeUntilMs = Math.max(this.#awakeUntilMs, nowMs + forMs);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.host.schedule(this.run);
  }

  /** Waits until the next tick, or until the event loop has something to do. */
  readonly run = (): void => {
    this.#isScheduled = false;
    const { host, flush, onFault } = this.#parts;
    const nowMs = host.now();
    if (this.#isClosed || nowMs < this.#awakeUntilMs || nowMs - this.#mediaAtMs > QUIET_MS) return;
    const untilMs = nowMs + Math.min(MAX_WAIT_MS, host.ticker.dueInMs(nowMs));
    try {
      // Between two waits, the event loop would receive the next packets of media itself.
      while (this.#wait(untilMs));
    } catch (error) {
      onFault(error);
    }
    host.ticker.packetReceived(host.now());
    flush();
    if (this.#sessions.length > 0) this.#schedule();
  };

  #listSessions(): boolean {
    this.#sources.length = 0;
    this.#sessions.length = 0;
    for (const source of this.#known) {
      const session = this.#sessions.length < MAX_SESSIONS ? source.session() : null;
      if (!session) {
        this.#known.delete(source);
        continue;
      }
      this.#sources.push(source);
      this.#sessions.push(session);
    }
    return this.#sessions.length > 0;
  }

  /** Returns whether TypeScript has handled what ended the wait, so that there is more to wait for. */
  #wait(untilMs: number): boolean {
    const { native, socket, batch, host, flush } = this.#parts;
    const nowMs = host.now();
    const forMs = Math.ceil(untilMs - nowMs);
    if (forMs <= 0 || nowMs < this.#awakeUntilMs || this.#eventLoop === null) return false;
    if (!flush() || !this.#listSessions()) return false;
    native.wait({ socket, eventLoop: this.#eventLoop, sessions: this.#sessions, batch, nowMs, forMs });
    this.#weigh(native.endedAtMs, native.endedAtMs - nowMs < forMs);
    this.#applyResults();
    return native.setAside > 0 || native.isFull;
  }

  #weigh(nowMs: number, isEarly: boolean): void {
    this.#gained += this.#parts.native.received;
    if (!isEarly) return;
    this.#gained -= 1 + this.#sessions.length / SESSIONS_PER_DATAGRAM;
    if (++this.#waits < WAITS_WEIGHED) return;
    if (this.#gained < 0) {
      this.stayAwake(nowMs, PAUSED_MS);
      this.#known.clear();
    }
    this.#waits = 0;
    this.#gained = 0;
  }

  #applyResults(): void {
    const { native, onFault, countIn, countOut } = this.#parts;
    let bytesIn = 0;
    for (let i = 0; i < this.#sources.length; i++) {
      const bytes = native.bytesFrom(i);
      if (bytes > 0) this.#sources[i]?.countBytes(bytes);
      bytesIn += bytes;
    }
    countIn(native.received - native.setAside, bytesIn);
    countOut(native.packetsOut, native.bytesOut, native.dropped);
    for (let i = 0; i < native.runs; i++) {
      const nowMs = native.runAtMs(i);
      this.#mediaAtMs = nowMs;
      try {
        this.#sources[native.runSession(i)]?.applyDeferredAccounting(native.run(i), native, nowMs);
      } catch (error) {
        onFault(error);
      }
    }
    for (let i = 0; i < native.setAside; i++) this.#handOver(i);
  }

  #handOver(index: number): void {
    const { native, socket, onDatagram, countIn } = this.#parts;
    const number = native.setAsideDatagram(index);
    const outcome = native.setAsideOutcome(index);
    const data = Buffer.from(native.datagram(number).buffer);
    if (data.length === 0) return;
    countIn(1, data.length);
    if (outcome === 0) onDatagram(data, native.portOf(number), native.addressOf(number, socket.isV6));
    else this.#sources[native.setAsideSession(index)]?.receiveOpened(data, outcome, native.endedAtMs);
  }

  close(): void {
    this.#isClosed = true;
    this.#known.clear();
  }
}

/** The descriptor at which the event loop of this thread waits: the one that waits for this socket. Null where the system has no such list. */
export function findEventLoop(socket: number): number | null {
  try {
    const folder = "/proc/self/fd";
    const waiting = readdirSync(folder).filter((fd) => {
      try {
        if (readlinkSync(`${folder}/${fd}`) !== "anon_inode:[eventpoll]") return false;
        return new RegExp(`^tfd:\\s+${socket}\\s`, "m").test(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"));
      } catch {
        return false;
      }
    });
    return waiting.length === 1 ? Number(waiting[0]) : null;
  } catch {
    return null;
  }
}
