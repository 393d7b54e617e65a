/** RTP and RTCP of one connection as they come in: opened, and handed on if they are new and authentic. */
import type { LaneTable } from "../forwarding/lanes.ts";
import { MAX_TAKE, type Take, type TakenRun } from "../forwarding/take.ts";
import type { Path } from "../ice/ice-session.ts";
import { isRtcp } from "../rtp/rtp.ts";
import type { IncomingSrtp, SrtpRefusals } from "../srtp/srtp.ts";
import type { SrtpMasterKey } from "../srtp/srtp-keys.ts";
import type { UdpPort } from "./udp.ts";

/** Where packets go that come in order. */
export type MediaSink = {
  readonly lanes: LaneTable<object>;
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
};

export class IncomingMedia {
  readonly #srtp: IncomingSrtp;
  readonly #udp: UdpPort;
  readonly #owner: MediaOwner;
  readonly #intake: MediaIntake | null;
  /** Of what waits there. */
  #intakePath: Path | null = null;

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
      this.#udp.finishWaiting();
      const length = this.#srtp.unprotectRtcp(data);
      if (length < 0) return;
      this.#owner.lives(path, nowMs);
      this.#owner.events.onRtcp(data, length, nowMs);
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
    });
  }

  close(): void {
    this.#intake?.clear();
    this.#srtp.close();
  }
}

export type MediaIntakeHost = {
  take: Take;
  incoming: Required<Pick<IncomingSrtp, "take" | "unprotectRtp">>;
  sink: MediaSink;
  /** Packets have proved authentic. */
  lives(nowMs: number): void;
  onRtp(data: Buffer, length: number, nowMs: number): void;
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
        if (at < count) this.#ordinary(waiting[at] as Buffer, outcome);
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
    const { take, sink, lives } = this.#host;
    lives(this.#nowMs);
    for (let i = 0; i < take.runs; i++) sink.onRun(take.run(i), take, this.#nowMs);
  }

  #ordinary(data: Buffer, outcome: number): void {
    const { incoming, lives, onRtp } = this.#host;
    const length = outcome === 0 ? incoming.unprotectRtp(data) : outcome;
    if (length < 0) return;
    lives(this.#nowMs);
    onRtp(data, length, this.#nowMs);
  }
}
