/** The UDP socket of a worker: sends in batches, with a bounded backlog, and hands datagrams on as they come. */
import { edenGC } from "bun:jsc";
import { type SocketTuning, tuneUdpSocket } from "../../kernel/net/socket-options.ts";
import { fanOut } from "../fast-path/fan-out.ts";
import type { FanOutGroup } from "../fast-path/fan-out-group.ts";
import { type FastPath, typescriptPath } from "../fast-path/fast-path.ts";
import { ReceiveLoop, type ReceiveLoopHost } from "../fast-path/receive-loop.ts";
import {
  type Descriptor,
  PACKET_BUFFER_BYTES,
  SEND_BATCH_PACKETS,
  SendBatch,
  type SendEntries,
} from "../fast-path/send-batch.ts";
import type { FanOutTarget } from "../forwarding/fan-out-target.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";

const BUFFER_BYTES = 4 * 1_024 * 1_024;
/** Packets wait here while the kernel's buffer is full. Packets beyond this number are lost, as on any congested link. */
const MAX_BACKLOG = 4_096;
/**
 * Each datagram that Bun reads is a buffer. Without help, the JavaScript engine collects these buffers only after many seconds, or
 * tens of megabytes.
 */
const COLLECT_AFTER_BYTES = 8 * 1_024 * 1_024;
/** The flag by which Bun's own `node:dgram` requests SO_REUSEPORT. */
const REUSE_PORT = { flags: 4 };

type DatagramHandler = (data: Buffer, port: number, address: string) => void;

/** Stands between socket and engine in tests: it drops, delays, repeats or reorders by its calls of `deliver`. */
export type Impair = (data: Uint8Array, port: number, deliver: (data: Uint8Array) => void) => void;

export type UdpOptions = {
  /** `::` receives both families where there is IPv6. */
  hostname: string;
  port: number;
  onDatagram: DatagramHandler;
  /** Other sockets that set this option as well may bind the same port. */
  reusePort?: boolean;
  /** Called at once with the bound socket, before anything else takes time. */
  onBound?(fd: number): void;
  /** Called when updating the counters of forwarded packets throws. */
  onFault?(error: unknown): void;
  /** The fast path; by default packets are handled in TypeScript. */
  path?: FastPath;
  /** If given, native code may wait in place of the event loop. */
  receiveLoop?: ReceiveLoopHost;
  impairIn?: Impair;
  impairOut?: Impair;
};

type UdpCounters = { packetsIn: number; bytesIn: number; packetsOut: number; bytesOut: number; dropped: number };

/** Requests for lost packets and for keyframes: to publishers (out) and from subscribers (in). */
export type RepairCounters = { nacksIn: number; nacksOut: number; keyframesIn: number; keyframesOut: number };

export class UdpPort {
  readonly counters: UdpCounters = { packetsIn: 0, bytesIn: 0, packetsOut: 0, bytesOut: 0, dropped: 0 };
  readonly repairs: RepairCounters = { nacksIn: 0, nacksOut: 0, keyframesIn: 0, keyframesOut: 0 };
  readonly tuning: SocketTuning;
  readonly path: FastPath;
  /** Null without native code. */
  readonly receiveLoop: ReceiveLoop | null;
  /** Called before native code waits in place of the event loop, which would run what is scheduled. */
  beforeWait: (() => void) | null = null;
  readonly #batch: SendBatch;
  readonly #descriptor: Descriptor | null;
  readonly #socket: Bun.udp.Socket<"buffer">;
  readonly #impairOut: Impair | undefined;
  #backlog: SendEntries = [];
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
      ...(options.reusePort && REUSE_PORT),
      binaryType: "buffer",
      socket: {
        data: (_socket, data, port, address) => {
          bound?.count(data.length);
          receive(data, port, address);
        },
        drain: () => bound?.drained(),
        // An ICMP error means that a peer is gone, which its consent timer notices. Without a handler it would be uncaught.
        error: () => {},
      },
    });
    const { fd } = socket as { fd?: number };
    if (fd !== undefined) options.onBound?.(fd);
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
    this.#batch = new SendBatch(
      (entries, count) => this.#sendBatch(entries, count),
      SEND_BATCH_PACKETS,
      path.send && !impairOut ? (batch, count) => this.#sendNatively(batch, count) : null,
    );
    this.tuning =
      fd === undefined ? { icmpErrorsSilenced: false, buffersRaised: false } : tuneUdpSocket(fd, BUFFER_BYTES);
    this.receiveLoop = this.#createReceiveLoop(options);
  }

  #createReceiveLoop(options: UdpOptions): ReceiveLoop | null {
    const { receiveLoop: host, impairIn, impairOut, onDatagram } = options;
    const { receiveLoop: native } = this.path;
    const socket = this.#descriptor;
    if (!host || !native || !socket || impairIn || impairOut) return null;
    const { counters } = this;
    return new ReceiveLoop({
      native,
      socket,
      host,
      onDatagram,
      batch: this.#batch,
      onFault: (error) => options.onFault?.(error),
      flush: () => {
        this.beforeWait?.();
        this.#batch.flush();
        return this.#backlog.length === 0 && !this.#socket.closed;
      },
      countIn: (packets, bytes) => {
        counters.packetsIn += packets;
        counters.bytesIn += bytes;
      },
      countOut: (packets, bytes, dropped) => {
        counters.packetsOut += packets;
        counters.bytesOut += bytes;
        counters.dropped += dropped;
      },
    });
  }

  get address(): string {
    return this.#socket.address.address;
  }

  get port(): number {
    return this.#socket.port;
  }

  /** The descriptor of the socket; null where Bun does not expose it. */
  get fd(): number | null {
    return this.#descriptor?.fd ?? null;
  }

  count(bytes: number): void {
    this.counters.packetsIn++;
    this.counters.bytesIn += bytes;
    this.#uncollectedBytes += bytes;
    if (this.#uncollectedBytes >= COLLECT_AFTER_BYTES) this.#schedule();
  }

  /** Queues the copies of a packet for the first `count` targets; the caller calls `schedule` after the last packet. */
  fanOut(packet: RtpView, targets: readonly FanOutTarget[], count: number): void {
    fanOut(packet, targets, count, this.#batch);
  }

  /** Queues the copies of a packet for all subscribers of the group. */
  fanOutToGroup(packet: SourcePacket, group: FanOutGroup, nowMs: number): void {
    this.path.fanOutToGroup(packet, group, nowMs, this.#batch);
    group.advance(packet, nowMs);
    this.schedule();
  }

  /** Queues a copy of any other packet. */
  send(data: Uint8Array, port: number, address: string): void {
    if (data.length > PACKET_BUFFER_BYTES) return;
    this.#batch.buffer().set(data);
    this.#batch.commit(data.length, port, address);
    this.schedule();
  }

  /** Sends the batch once the event loop has handled what it received, unless it is full earlier. */
  schedule(): void {
    if (this.#batch.count > 0) this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#flush);
  }

  readonly #flush = (): void => {
    this.#batch.flush();
    this.#scheduled = false;
    if (this.#uncollectedBytes < COLLECT_AFTER_BYTES) return;
    this.#uncollectedBytes = 0;
    edenGC();
  };

  /** Nothing is sent while a backlog waits, so that no packet overtakes it. */
  #sendNatively(batch: SendBatch, count: number): boolean {
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
    const isDone = path.send(this.#descriptor, batch, count);
    // The remaining packets are counted when the socket sends them.
    if (!isDone) add(-1);
    return isDone;
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

  /** Without libc a stray ICMP error ends a batch early, and the next attempt succeeds: short counts are retried. */
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
      // An address without a route must not make the rest of the batch fail.
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
    this.receiveLoop?.close();
    this.#flush();
    if (!this.#socket.closed) this.#socket.close();
  }
}
