/**
 * While calls go on as usual, native code waits at the socket and forwards what comes; the loop of this thread is left asleep.
 * It has its turn as soon as it has anything to do, after every tick, and whenever a packet is not usual. Before anybody else
 * hears of anything, what was forwarded meanwhile is made up for here: so nothing ever sees packets that have left and were not
 * counted. Reports that only tell something come next, each with the time at which it came: they are no reason to wake up.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { Descriptor, SendBatch } from "../forwarding/send-batch.ts";
import type { Take, TakenRun } from "../forwarding/take.ts";
import { MAX_SESSIONS, type Watch, type WatchedSession } from "../forwarding/watch.ts";

/** Timers of the loop come no later than by this. */
const MAX_WAIT_MS = 100;
/** Reports that nothing depends on are read within this time. */
const PATIENCE_MS = 50;
/** Those of viewers who have less than they want decide what they get: for so long, none waits. */
const IMPATIENT_MS = 1_000;
/** Without a usual packet for so long there is nothing to wait for. */
const QUIET_MS = 150;
/** What goes on besides media may need timers that are in a hurry: handshakes, data, probes. */
const AWAKE_MS = 100;

/**
 * Each of so many watches has to forward a packet on average, and one more for so many sessions that were to be listed: else the
 * loop has so much to do that it had better do all of it for a while.
 */
const TRIED = 64;
const SESSIONS_A_PACKET = 4;
const RESIGNED_MS = 1_000;

/** Where the packets of one connection go. */
export interface WatchedIntake {
  /** What a watch needs to forward them; null when it cannot. */
  watched(): WatchedSession | null;
  makeUp(run: TakenRun, take: Take, nowMs: number): void;
  opened(data: Buffer, outcome: number, nowMs: number): void;
  counted(bytes: number): void;
}

/** What the worker is to a watch. */
export type WatchHost = {
  now(): number;
  /** Time passes with packets, and otherwise when it is due. */
  readonly pace: { dueInMs(nowMs: number): number; packetCame(nowMs: number): void };
  /** When the loop has had its turn. */
  readonly later: (keep: () => void) => void;
};

export type MediaWatchParts = {
  watch: Watch;
  socket: Descriptor;
  batch: SendBatch;
  host: WatchHost;
  /** `cameAtMs`: not now, but then. */
  onDatagram(data: Buffer, port: number, address: string, cameAtMs?: number): void;
  onFault(error: unknown): void;
  /** True: everything that waits has been handled, and has left. */
  settle(): boolean;
  counted(packetsIn: number, bytesIn: number, sent?: Watch["sent"]): void;
};

export class MediaWatch {
  readonly #parts: MediaWatchParts;
  readonly #loop: number | null;
  readonly #known = new Set<WatchedIntake>();
  readonly #intakes: WatchedIntake[] = [];
  readonly #sessions: WatchedSession[] = [];
  #usualAtMs = 0;
  #awakeUntilMs = 0;
  #impatientUntilMs = 0;
  /** Watches that ended before their time was up, and the packets that were forwarded meanwhile, beyond what they cost. */
  #tried = 0;
  #gained = 0;
  #isDue = false;
  #isOver = false;

  constructor(parts: MediaWatchParts) {
    this.#parts = parts;
    this.#loop = loopOf(parts.socket.fd);
    this.#isOver = this.#loop === null;
  }

  /** Usual packets came from there. */
  usual(intake: WatchedIntake, nowMs: number): void {
    if (this.#isOver || nowMs < this.#awakeUntilMs) return;
    this.#usualAtMs = nowMs;
    this.#known.add(intake);
    this.#schedule();
  }

  forget(intake: WatchedIntake): void {
    this.#known.delete(intake);
  }

  /** Something else than media is going on: the loop keeps its turns, and its timers, for so long. */
  awake(nowMs: number, forMs = AWAKE_MS): void {
    this.#awakeUntilMs = Math.max(this.#awakeUntilMs, nowMs + forMs);
  }

  /** Somebody's report is waited for, and so will be its next ones. */
  impatient(nowMs: number): void {
    this.#impatientUntilMs = Math.max(this.#impatientUntilMs, nowMs + IMPATIENT_MS);
  }

  isImpatient(nowMs: number): boolean {
    return nowMs < this.#impatientUntilMs;
  }

  #schedule(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#parts.host.later(this.keep);
  }

  /** Watches, once, if there is anything to watch for. */
  readonly keep = (): void => {
    this.#isDue = false;
    const { host, settle } = this.#parts;
    const nowMs = host.now();
    if (this.#isOver || nowMs < this.#awakeUntilMs || nowMs - this.#usualAtMs > QUIET_MS) return;
    if (this.#known.size > MAX_SESSIONS) this.#resign(nowMs);
    if (!settle() || !this.#list()) return;
    try {
      this.#wait(Math.min(MAX_WAIT_MS, Math.ceil(host.pace.dueInMs(nowMs))), nowMs);
    } catch (error) {
      this.#parts.onFault(error);
    }
    settle();
    this.#schedule();
  };

  /** Watching costs a little itself. */
  #weigh(nowMs: number, isEarly: boolean): void {
    this.#gained += this.#parts.watch.taken;
    if (!isEarly) return;
    this.#gained -= 1 + this.#sessions.length / SESSIONS_A_PACKET;
    if (++this.#tried < TRIED) return;
    if (this.#gained < 0) this.#resign(nowMs);
    this.#tried = 0;
    this.#gained = 0;
  }

  #resign(nowMs: number): void {
    this.#awakeUntilMs = nowMs + RESIGNED_MS;
    this.#known.clear();
  }

  /** Whoever can be watched as things are now. */
  #list(): boolean {
    this.#intakes.length = 0;
    this.#sessions.length = 0;
    for (const intake of this.#known) {
      const session = intake.watched();
      if (!session) {
        this.#known.delete(intake);
        continue;
      }
      this.#intakes.push(intake);
      this.#sessions.push(session);
    }
    return this.#sessions.length > 0;
  }

  #wait(forMs: number, nowMs: number): void {
    const { watch, socket, batch, host } = this.#parts;
    if (forMs > 0 && this.#loop !== null) {
      const patienceMs = this.isImpatient(nowMs) ? 0 : PATIENCE_MS;
      watch.wait({ socket, loop: this.#loop, sessions: this.#sessions, batch, nowMs, forMs, patienceMs });
      this.#weigh(watch.endedAtMs, watch.endedAtMs - nowMs < forMs);
      this.#makeUp();
    }
    host.pace.packetCame(host.now());
  }

  #makeUp(): void {
    const { watch, onFault } = this.#parts;
    const { taken, reports, received, sent } = watch;
    let bytesIn = 0;
    for (let i = 0; i < this.#intakes.length; i++) {
      const bytes = watch.bytesFrom(i);
      if (bytes > 0) this.#intakes[i]?.counted(bytes);
      bytesIn += bytes;
    }
    this.#parts.counted(taken - reports, bytesIn, sent);
    for (let i = 0; i < watch.runs; i++) {
      const nowMs = watch.cameAtMs(i);
      this.#usualAtMs = nowMs;
      try {
        this.#intakes[watch.sessionOf(i)]?.makeUp(watch.run(i), watch, nowMs);
      } catch (error) {
        onFault(error);
      }
    }
    for (let i = 0; i < reports; i++) {
      const outcome = watch.reportOutcome(i);
      if (outcome === 0) this.#handOver(watch.report(i), watch.reportAt(i), watch.reportCameAtMs(i));
      else this.#opened(watch.report(i), watch.reportSession(i), outcome, watch.reportCameAtMs(i));
    }
    if (received > taken) this.#handOverRest(taken, received);
  }

  /** What is not usual, and all that came behind it. */
  #handOverRest(from: number, to: number): void {
    const { outcome, restSession, endedAtMs } = this.#parts.watch;
    let next = from;
    if (outcome !== 0) this.#opened(this.#copyOf(next++), restSession, outcome, endedAtMs);
    for (; next < to; next++) this.#handOver(this.#copyOf(next), next);
  }

  #copyOf(datagram: number): Buffer {
    return Buffer.from(this.#parts.watch.datagram(datagram).buffer);
  }

  #opened(data: Buffer, session: number, outcome: number, cameAtMs: number): void {
    const { counted } = this.#parts;
    counted(1, data.length);
    this.#intakes[session]?.opened(data, outcome, cameAtMs);
  }

  /** As it came, now or `cameAtMs`. */
  #handOver(data: Buffer, datagram: number, cameAtMs?: number): void {
    const { watch, socket, onDatagram, counted } = this.#parts;
    if (data.length === 0) return;
    counted(1, data.length);
    onDatagram(data, watch.portOf(datagram), watch.addressOf(datagram, socket.isV6), cameAtMs);
  }

  close(): void {
    this.#isOver = true;
    this.#known.clear();
  }
}

/** The descriptor by which the loop of this thread waits: the one that waits for this socket. Null where that cannot be found out. */
export function loopOf(socket: number): number | null {
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
