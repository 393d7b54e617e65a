/** Incoming RTP and RTCP of one connection: decrypted, and passed on if the packet is authentic and no replay. */

import { addressWords } from "../fast-path/native-engine.ts";
import type { LoopSession } from "../fast-path/native-receive-loop.ts";
import type { PacketRun, ReceiveBatch } from "../fast-path/receive-batch.ts";
import type { LoopSource } from "../fast-path/receive-loop.ts";
import type { PublisherStreams } from "../fast-path/stream-table.ts";
import { isRtcp } from "../wire/rtp/rtp.ts";
import type { IncomingSrtp, SrtpRefusals } from "../wire/srtp/srtp.ts";
import type { ControlBudget } from "./control-budget.ts";
import type { Path } from "./ice/ice-session.ts";
import type { UdpPort } from "./udp.ts";

export type MediaEvents = {
  /** The decrypted packet is the first `length` bytes of `data`. */
  onRtp(data: Buffer, length: number, nowMs: number): void;
  onRtcp(data: Buffer, length: number, nowMs: number): void;
  /** The streams that native code may forward; null when nothing is published on this connection. */
  readonly streams: PublisherStreams | null;
};

type MediaOwner = {
  events: MediaEvents;
  onAuthentic(path: Path, nowMs: number): void;
  /** The path belongs to this connection, and its packets are not delayed by a simulated network. */
  isDirect(path: Path): boolean;
  countBytes(bytes: number): void;
  readonly control: ControlBudget;
};

export class IncomingMedia implements LoopSource {
  readonly #srtp: IncomingSrtp;
  readonly #udp: UdpPort;
  readonly #owner: MediaOwner;
  /** The path of the newest packet of media. */
  #path: Path | null = null;
  #session: { readonly path: Path; readonly session: LoopSession | null } | null = null;

  constructor(srtp: IncomingSrtp, udp: UdpPort, owner: MediaOwner) {
    this.#srtp = srtp;
    this.#udp = udp;
    this.#owner = owner;
  }

  get refusals(): SrtpRefusals {
    return this.#srtp.refusals;
  }

  forget(ssrc: number): void {
    this.#srtp.forget(ssrc);
  }

  receive(data: Buffer, nowMs: number, path: Path): void {
    if (isRtcp(data)) this.#receiveRtcp(data, nowMs, path);
    else this.#receiveRtp(data, this.#srtp.unprotectRtp(data), nowMs, path);
  }

  #receiveRtcp(data: Buffer, nowMs: number, path: Path): void {
    if (this.#owner.control.drops()) return;
    const length = this.#srtp.unprotectRtcp(data);
    if (length < 0) return;
    this.#owner.onAuthentic(path, nowMs);
    this.#owner.control.spend(() => this.#owner.events.onRtcp(data, length, nowMs));
  }

  #receiveRtp(data: Buffer, length: number, nowMs: number, path: Path): void {
    const { events, onAuthentic } = this.#owner;
    if (length < 0) return;
    onAuthentic(path, nowMs);
    events.onRtp(data, length, nowMs);
    if (!events.streams) return;
    this.#path = path;
    this.#udp.receiveLoop?.mediaReceived(this, nowMs);
  }

  session(): LoopSession | null {
    const path = this.#path;
    const { streams } = this.#owner.events;
    if (!path || path.tcp || !this.#owner.isDirect(path) || !streams?.link()) return null;
    if (this.#session?.path !== path) {
      const { handle: receiver } = this.#srtp;
      const address = addressWords(path.address);
      const session = address && receiver ? { receiver, streams: streams.table, port: path.port, address } : null;
      this.#session = { path, session };
    }
    return this.#session.session;
  }

  applyDeferredAccounting(run: PacketRun, batch: ReceiveBatch, nowMs: number): void {
    if (this.#path) this.#owner.onAuthentic(this.#path, nowMs);
    this.#owner.events.streams?.receiveRun(run, batch, nowMs);
  }

  receiveOpened(data: Buffer, outcome: number, nowMs: number): void {
    this.countBytes(data.length);
    if (outcome < 0) this.#srtp.refused?.(outcome);
    else if (this.#path) this.#receiveRtp(data, outcome, nowMs, this.#path);
  }

  countBytes(bytes: number): void {
    this.#owner.countBytes(bytes);
  }

  close(): void {
    this.#udp.receiveLoop?.forget(this);
    this.#srtp.close();
  }
}
