/** RTP and RTCP of one connection as they come in: opened, and handed on if they are new and authentic. */
import type { LaneTable } from "../forwarding/lanes.ts";
import { MAX_TAKE, type Take, type TakenRun } from "../forwarding/take.ts";
import type { WatchedSession } from "../forwarding/watch.ts";
import { addressWords } from "../wire/rtp/address.ts";
import { isRtcp } from "../wire/rtp/rtp.ts";
import type { IncomingSrtp, SrtpRefusals } from "../wire/srtp/srtp.ts";
import type { SrtpMasterKey } from "../wire/srtp/srtp-cipher.ts";
import type { ControlBudget } from "./control-budget.ts";
import type { Path } from "./ice/ice-session.ts";
import type { UdpPort } from "./udp.ts";

/** Where packets go that come in order. */
export type MediaSink = {
  readonly lanes: LaneTable<object>;
  /** Tells the lanes who gets what comes on them now; false when none of them is as simple as that. */
  seat?(): boolean;
  onRun(run: TakenRun, take: Take, nowMs: number): void;
};

export type MediaEvents = {
  /** A plain packet at the start of `data`. */
  onRtp(data: Buffer, length: number, nowMs: number): void;
  /** Packets that come in order may be handed over many at once; null: each by itself. */
  readonly media: MediaSink | null;
  onRtcp(data: Buffer, length: number, nowMs: number): void;
};

type MediaOwner = {
  events: MediaEvents;
  /** A packet or report proved authentic. */
  lives(path: Path, nowMs: number): void;
  /** Packets from there are its own, and come as they are sent. */
  isAt(path: Path): boolean;
  counted(bytes: number): void;
  readonly control: ControlBudget;
};

type Source = Pick<WatchedSession, "port" | "address">;

export class IncomingMedia {
  readonly #srtp: IncomingSrtp;
  readonly #udp: UdpPort;
  readonly #owner: MediaOwner;
  readonly #intake: MediaIntake | null;
  /** Of what waits there. */
  #intakePath: Path | null = null;
  /** Of a path that media came on, as native code has it. */
  #from: { path: Path; source: Source | null } | null = null;

  constructor(master: SrtpMasterKey, udp: UdpPort, owner: MediaOwner) {
    this.#srtp = udp.path.createReceiver(master);
    this.#udp = udp;
    this.#owner = owner;
    this.#intake = this.#createIntake();
  }

  get refusals(): SrtpRefusals {
    return this.#srtp.refusals;
  }

  /** `mayWait`: for others of the same turn, and be handed on together with them. */
  receive(data: Buffer, nowMs: number, path: Path, mayWait: boolean): void {
    if (isRtcp(data)) {
      if (this.#owner.control.drops()) return;
      this.#udp.finishWaiting();
      const length = this.#srtp.unprotectRtcp(data);
      if (length < 0) return;
      this.#owner.lives(path, nowMs);
      this.#readControl(data, length, nowMs);
      return;
    }
    if (this.#intake && mayWait) {
      if (path !== this.#intakePath) this.#intake.finish();
      this.#intakePath = path;
      if (this.#intake.add(data, nowMs)) this.#udp.wait(this.#intake);
      return;
    }
    const length = this.#srtp.unprotectRtp(data);
    if (length < 0) return;
    this.#owner.lives(path, nowMs);
    this.#owner.events.onRtp(data, length, nowMs);
  }

  #readControl(data: Buffer, length: number, nowMs: number): void {
    this.#owner.control.spend(() => this.#owner.events.onRtcp(data, length, nowMs));
  }

  #createIntake(): MediaIntake | null {
    const { take } = this.#udp.path;
    const { events, lives } = this.#owner;
    const incoming = this.#srtp;
    if (!take || !events.media || !incoming.take) return null;
    return new MediaIntake({
      take,
      incoming: incoming as Required<IncomingSrtp>,
      sink: events.media,
      lives: (nowMs) => {
        if (this.#intakePath) lives(this.#intakePath, nowMs);
      },
      onRtp: (data, length, nowMs) => events.onRtp(data, length, nowMs),
      onRtcp: (data, length, nowMs) => {
        if (!this.#owner.control.drops()) this.#readControl(data, length, nowMs);
      },
      usual: (intake, nowMs) => this.#udp.watch?.usual(intake, nowMs),
      source: () => this.#source(),
      counted: (bytes) => this.#owner.counted(bytes),
    });
  }

  #source(): Source | null {
    const path = this.#intakePath;
    if (!path || path.tcp || !this.#owner.isAt(path)) return null;
    if (this.#from?.path !== path) {
      const address = addressWords(path.address);
      this.#from = { path, source: address && { port: path.port, address } };
    }
    return this.#from.source;
  }

  close(): void {
    this.#intake?.clear();
    if (this.#intake) this.#udp.watch?.forget(this.#intake);
    this.#srtp.close();
  }
}

export type MediaIntakeHost = {
  take: Take;
  incoming: Required<Pick<IncomingSrtp, "take" | "unprotectRtp">> & Pick<IncomingSrtp, "handle" | "refused">;
  sink: MediaSink;
  /** Packets have proved authentic. */
  lives(nowMs: number): void;
  onRtp(data: Buffer, length: number, nowMs: number): void;
  onRtcp(data: Buffer, length: number, nowMs: number): void;
  /** Packets came that are no reason to wake up for each of them. */
  usual?(intake: MediaIntake, nowMs: number): void;
  /** Where its packets come from, as long as nothing else is to be done about any of them. */
  source?(): Source | null;
  /** Bytes that nobody else has counted. */
  counted?(bytes: number): void;
};

/**
 * Packets of media of one connection, kept until the turn of the loop is over or something else is to be done: a browser sends
 * all packets of a frame at once, and what is usual about them is done by one call.
 */
export class MediaIntake {
  readonly #host: MediaIntakeHost;
  #waiting: Buffer[] = [];
  #spare: Buffer[] = [];
  #nowMs = 0;
  #watched: WatchedSession | null = null;

  constructor(host: MediaIntakeHost) {
    this.#host = host;
  }

  /** True: it is the first one, and `finish` has to be called. What came at the same turn came at the same time. */
  add(data: Buffer, nowMs: number): boolean {
    const isFirst = this.#waiting.length === 0;
    if (isFirst) this.#nowMs = nowMs;
    this.#waiting.push(data);
    if (this.#waiting.length === MAX_TAKE) this.finish();
    return isFirst;
  }

  finish(): void {
    const waiting = this.#waiting;
    const count = waiting.length;
    if (count === 0) return;
    this.#waiting = this.#spare;
    this.#spare = waiting;
    const { take, incoming, sink } = this.#host;
    try {
      take.begin(waiting, this.#nowMs);
      for (let at = 0; at < count; at++) {
        const taken = incoming.take(sink.lanes, at);
        const { outcome } = take;
        if (taken > at) this.#taken();
        at = taken;
        if (at < count) this.#ordinary(waiting[at] as Buffer, outcome, this.#nowMs);
      }
    } finally {
      waiting.length = 0;
    }
  }

  /** The connection is over. */
  clear(): void {
    this.#waiting.length = 0;
  }

  #taken(): void {
    const { take, sink, lives, usual } = this.#host;
    lives(this.#nowMs);
    for (let i = 0; i < take.runs; i++) sink.onRun(take.run(i), take, this.#nowMs);
    usual?.(this, this.#nowMs);
  }

  #ordinary(data: Buffer, outcome: number, nowMs: number): void {
    const { incoming, lives, onRtp } = this.#host;
    const length = outcome === 0 ? incoming.unprotectRtp(data) : outcome;
    if (length < 0) return;
    lives(nowMs);
    onRtp(data, length, nowMs);
  }

  /** What a watch needs to forward its packets; null when it cannot. */
  watched(): WatchedSession | null {
    const { sink, incoming, source } = this.#host;
    const from = source?.();
    const { handle: receiver } = incoming;
    if (!from || !receiver || !sink.seat?.()) return null;
    if (this.#watched?.address !== from.address || this.#watched.receiver !== receiver)
      this.#watched = { ...from, receiver, lanes: sink.lanes };
    return this.#watched;
  }

  /** Packets that a watch has taken and sent. */
  makeUp(run: TakenRun, take: Take, nowMs: number): void {
    this.#host.lives(nowMs);
    this.#host.sink.onRun(run, take, nowMs);
  }

  /** One that a watch has opened, or refused, and left. */
  opened(data: Buffer, outcome: number, nowMs: number): void {
    const { incoming, lives, onRtcp } = this.#host;
    this.counted(data.length);
    if (outcome < 0) incoming.refused?.(outcome);
    else if (isRtcp(data)) {
      lives(nowMs);
      onRtcp(data, outcome, nowMs);
    } else this.#ordinary(data, outcome, nowMs);
  }

  counted(bytes: number): void {
    this.#host.counted?.(bytes);
  }
}
