/** RTP and RTCP of one connection as they come in: opened, and handed on if they are new and authentic. */
import type { Path } from "../ice/ice-session.ts";
import { isRtcp } from "../rtp/rtp.ts";
import type { IncomingSrtp, SrtpRefusals } from "../srtp/srtp.ts";
import type { SrtpMasterKey } from "../srtp/srtp-keys.ts";
import { MediaIntake, type MediaSink } from "./media-intake.ts";
import type { UdpPort } from "./udp.ts";

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
