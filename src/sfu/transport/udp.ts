/** The one UDP socket of a worker: batched sends, a bounded backlog, and packets handed on as they come. */

import { edenGC } from "bun:jsc";
import { type SocketTuning, tuneUdpSocket } from "../../kernel/net/socket-options.ts";
import type { Audience } from "../forwarding/audience.ts";
import type { FanOutTarget } from "../forwarding/fan-out-target.ts";
import { type PacketPath, typescriptPath } from "../forwarding/packet-path.ts";
import {
  type Descriptor,
  SEND_BATCH_PACKETS,
  SEND_SLOT_BYTES,
  SendBatch,
  type SendEntries,
} from "../forwarding/send-batch.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import type { Take, TakenRun } from "../forwarding/take.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";
import { MediaWatch, type WatchHost } from "./media-watch.ts";

const BUFFER_BYTES = 4 * 1_024 * 1_024;
/** Packets kept while the kernel's buffer is full; later ones are lost, as on any congested link. */
const MAX_BACKLOG = 4_096;
/** Each packet that the loop reads is a buffer. Left alone, the engine lets them pile up for ten seconds, and higher after a storm. */
const COLLECT_AFTER_BYTES = 8 * 1_024 * 1_024;

/** `cameAtMs`: not now, but then. */
export type DatagramHandler = (data: Buffer, port: number, address: string, cameAtMs?: number) => void;

/** Stands between socket and engine in tests: may drop, delay, repeat or reorder by calling `deliver` as it likes. */
export type Impair = (data: Uint8Array, port: number, deliver: (data: Uint8Array) => void) => void;

export type UdpOptions = {
  /** `::` takes both families where there is IPv6. */
  hostname: string;
  port: number;
  onDatagram: DatagramHandler;
  /** Something threw over the packets that waited; those of others go on. */
  onFault?(error: unknown): void;
  /** TypeScript's, unless another one is given. */
  path?: PacketPath;
  /** Native code may wait in the place of the loop. */
  watch?: WatchHost;
  impairIn?: Impair;
  impairOut?: Impair;
};

export type UdpCounters = { packetsIn: number; bytesIn: number; packetsOut: number; bytesOut: number; dropped: number };

/** Requests for what was lost, and for a picture to start from: to publishers (out) and from viewers (in). */
export type RepairCounters = { nacksIn: number; nacksOut: number; keyframesIn: number; keyframesOut: number };

export class UdpPort {
  readonly counters: UdpCounters = { packetsIn: 0, bytesIn: 0, packetsOut: 0, bytesOut: 0, dropped: 0 };
  readonly repairs: RepairCounters = { nacksIn: 0, nacksOut: 0, keyframesIn: 0, keyframesOut: 0 };
  readonly tuning: SocketTuning;
  readonly path: PacketPath;
  readonly watch: MediaWatch | null;
  readonly #batch: SendBatch;
  readonly #descriptor: Descriptor | null;
  readonly #socket: Bun.udp.Socket<"buffer">;
  readonly #impairOut: Impair | undefined;
  #backlog: SendEntries = [];
  readonly #waiting: { finish(): void }[] = [];
  readonly #onFault: (error: unknown) => void;
  #scheduled = false;
  #uncollectedBytes = 0;

  static async bind(options: UdpOptions): Promise<UdpPort> {
    let bound: UdpPort | null = null;
    const { onDatagram, impairIn } = options;
    const receive: DatagramHandler = impairIn
      ? (data, port, address) => impairIn(data, port, (late) => onDatagram(Buffer.from(late), port, address))
      : onDatagram;
    const socket = await Bun.udpSocket({
      hostname: options.hostname,
      port: options.port,
      binaryType: "buffer",
      socket: {
        data: (_socket, data, port, address) => {
          bound?.count(data.length);
          receive(data, port, address);
        },
        drain: () => bound?.drained(),
        // ICMP errors tell of a peer that is gone; its consent timer notices. Without a handler they would be uncaught.
        error: () => {},
      },
    });
    bound = new UdpPort(socket, options);
    return bound;
  }

  private constructor(socket: Bun.udp.Socket<"buffer">, options: UdpOptions) {
    const { path = typescriptPath, impairOut } = options;
    const { fd } = socket as { fd?: number };
    this.#socket = socket;
    this.#impairOut = impairOut;
    this.#descriptor = fd === undefined ? null : { fd, isV6: socket.address.family === "IPv6" };
    this.path = path;
    this.#onFault = (error) => options.onFault?.(error);
    this.#batch = new SendBatch(
      (entries, count) => this.#sendBatch(entries, count),
      SEND_BATCH_PACKETS,
      path.send && !impairOut ? (batch, count) => this.#sendDirectly(batch, count) : null,
    );
    this.tuning =
      fd === undefined ? { icmpErrorsSilenced: false, buffersRaised: false } : tuneUdpSocket(fd, BUFFER_BYTES);
    this.watch = this.#createWatch(options);
  }

  #createWatch({ watch: host, impairIn, impairOut, onDatagram }: UdpOptions): MediaWatch | null {
    const { watch } = this.path;
    const socket = this.#descriptor;
    if (!host || !watch || !socket || impairIn || impairOut) return null;
    return new MediaWatch({
      ...{ watch, socket, host, onDatagram },
      batch: this.#batch,
      onFault: this.#onFault,
      settle: () => {
        this.settle();
        return this.#backlog.length === 0 && !this.#socket.closed;
      },
      counted: (packetsIn, bytesIn, sent) => {
        const { counters } = this;
        counters.packetsIn += packetsIn;
        counters.bytesIn += bytesIn;
        if (!sent) return;
        counters.packetsOut += sent.packets;
        counters.bytesOut += sent.bytes;
        counters.dropped += sent.dropped;
      },
    });
  }

  get port(): number {
    return this.#socket.port;
  }

  count(bytes: number): void {
    this.counters.packetsIn++;
    this.counters.bytesIn += bytes;
    this.#uncollectedBytes += bytes;
    if (this.#uncollectedBytes >= COLLECT_AFTER_BYTES) this.#schedule();
  }

  /** One packet of media to the first `count` targets; call `schedule` after the last packet of a turn. */
  fanOut(packet: RtpView, targets: readonly FanOutTarget[], count: number): void {
    this.path.finishAlike();
    this.path.fanOut(packet, targets, count, this.#batch);
  }

  /** One packet of media to everyone in the audience it is for. */
  fanOutAlike(packet: SourcePacket, audience: Audience, nowMs: number): void {
    this.path.fanOutAlike(packet, audience, nowMs, this.#batch);
    audience.advance(packet, nowMs);
    this.#schedule();
  }

  /** Packets in a row that the path has taken. */
  fanOutTaken(run: TakenRun, take: Take, audience: Audience, nowMs: number): void {
    this.path.finishAlike();
    take.fanOut(run, audience.table, this.#batch);
    audience.advanceBy(run, nowMs);
    this.schedule();
  }

  /** Its packets are to be handled at the end of this turn of the loop at the latest. */
  wait(intake: { finish(): void }): void {
    this.#waiting.push(intake);
    this.#schedule();
  }

  /** Before anything happens that comes after the packets which wait. */
  finishWaiting(): void {
    for (let i = 0; i < this.#waiting.length; i++) {
      try {
        this.#waiting[i]?.finish();
      } catch (error) {
        this.#onFault(error);
      }
    }
    this.#waiting.length = 0;
  }

  /** One packet of control traffic; the bytes are copied. */
  send(data: Uint8Array, port: number, address: string): void {
    if (data.length > SEND_SLOT_BYTES) return;
    this.path.finishAlike();
    this.#batch.slot().set(data);
    this.#batch.commit(data.length, port, address);
    this.schedule();
  }

  /** The batch leaves at the end of this turn of the loop, or earlier when it is full. */
  schedule(): void {
    if (this.#batch.count > 0) this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#flush);
  }

  readonly #flush = (): void => {
    this.settle();
    this.#scheduled = false;
    if (this.#uncollectedBytes < COLLECT_AFTER_BYTES) return;
    this.#uncollectedBytes = 0;
    edenGC();
  };

  /** Whatever waits is handled now, and leaves. */
  settle(): void {
    this.finishWaiting();
    this.path.finishAlike();
    this.#batch.flush();
  }

  /** Nothing goes past packets that wait for room in the kernel's buffer. */
  #sendDirectly(batch: SendBatch, count: number): boolean {
    const { path, counters } = this;
    if (path.send === null || this.#descriptor === null || this.#backlog.length > 0 || this.#socket.closed)
      return false;
    const add = (sign: 1 | -1) => {
      for (let i = 0; i < count; i++) {
        const length = batch.length(i);
        if (length === 0) continue;
        counters.packetsOut += sign;
        counters.bytesOut += sign * length;
      }
    };
    add(1);
    const done = path.send(this.#descriptor, batch, count);
    // What is left is counted when the socket sends it.
    if (!done) add(-1);
    return done;
  }

  #sendBatch(entries: SendEntries, count: number): void {
    this.counters.packetsOut += count;
    for (let i = 0; i < entries.length; i += 3) this.counters.bytesOut += (entries[i] as Uint8Array).length;
    if (this.#impairOut) {
      for (let i = 0; i < entries.length; i += 3) {
        const port = entries[i + 1] as number;
        const address = entries[i + 2] as string;
        this.#impairOut((entries[i] as Uint8Array).slice(), port, (late) => void this.#sendMany([late, port, address]));
      }
      return;
    }
    const sent = this.#backlog.length > 0 ? 0 : this.#transmit(entries, count);
    if (sent < count) this.#keep(entries, sent);
  }

  /** Without libc a stray ICMP error ends a batch early, and the next attempt goes through: so short counts are retried. */
  #transmit(entries: SendEntries, count: number): number {
    let sent = this.#sendMany(entries);
    for (let stalls = 0; sent < count && stalls < 2; ) {
      const more = this.#sendMany(entries.slice(sent * 3, (sent + SEND_BATCH_PACKETS) * 3));
      if (more === 0) stalls++;
      sent += more;
    }
    return sent;
  }

  #sendMany(entries: SendEntries): number {
    if (this.#socket.closed) return entries.length / 3;
    try {
      return this.#socket.sendMany(entries);
    } catch {
      // An address the kernel has no route to must not take the rest of the batch with it.
      if (entries.length > 3) for (let i = 0; i < entries.length; i += 3) this.#sendMany(entries.slice(i, i + 3));
      return entries.length / 3;
    }
  }

  #keep(entries: SendEntries, sent: number): void {
    for (let i = sent * 3; i < entries.length; i += 3) {
      if (this.#backlog.length >= MAX_BACKLOG * 3) {
        this.counters.dropped += (entries.length - i) / 3;
        return;
      }
      this.#backlog.push((entries[i] as Uint8Array).slice(), entries[i + 1] as number, entries[i + 2] as string);
    }
  }

  drained(): void {
    if (this.#backlog.length === 0) return;
    const first = this.#backlog.slice(0, SEND_BATCH_PACKETS * 3);
    const sent = this.#transmit(first, first.length / 3);
    this.#backlog = this.#backlog.slice(sent * 3);
  }

  close(): void {
    this.watch?.close();
    this.#flush();
    if (!this.#socket.closed) this.#socket.close();
  }
}
