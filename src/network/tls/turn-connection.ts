import type { Now } from "../../kernel/time/clock.ts";
import type { ClientAddress } from "../../protocol/client-table.ts";
import { isChannelData, TurnStream } from "../turn/framing.ts";
import { isDataIndication } from "../turn/message.ts";
import type { TurnServer } from "../turn/server.ts";
import type { ClientTransport, TransportProtocol } from "../turn/transports.ts";
import { BufferedWriter, type ConnectionHandler, type StreamSocket } from "./sockets.ts";

/** A client that reads too slowly loses whole packets when this buffer is full, as on any slow link. */
const MAX_WAITING_BYTES = 256 * 1_024;
/**
 * Older media is useless, and delays the media after it. The limit is not shorter because TCP pauses for some hundred milliseconds
 * to resend lost segments, and media right after such a pause is still played.
 */
const MAX_WAIT_MS = 1_000;
/** The size of one TLS record. */
const BATCH_BYTES = 16_000;

/** Media arrives in bursts, and one write takes as long as several packets, so a burst is written in one call. */
const COALESCE_MS = 2;

/** Flushes all connections that have unwritten packets with one timer. */
export class WriteScheduler {
  #flushes: (() => void)[] = [];

  add(flush: () => void): void {
    this.#flushes.push(flush);
    if (this.#flushes.length === 1) setTimeout(this.#flushAll, COALESCE_MS);
  }

  readonly #flushAll = () => {
    const flushes = this.#flushes;
    this.#flushes = [];
    for (const flush of flushes) flush();
  };
}

type Waiting = { message: Buffer; atMs: number };

/** One TURN client over TCP or TLS. Packets of one burst are sent in one write. */
export class TurnConnection implements ConnectionHandler, ClientTransport {
  readonly address: string;
  readonly port: number;
  readonly protocol: TransportProtocol;
  readonly #writer: BufferedWriter;
  readonly #stream = new TurnStream();
  #batch: Buffer | null = null;
  #batched = 0;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #isClosed = false;

  readonly #scheduledFlush = () => this.#flush();

  constructor(
    socket: StreamSocket,
    client: ClientAddress,
    protocol: TransportProtocol,
    private readonly server: TurnServer,
    private readonly scheduler: WriteScheduler,
    private readonly now: Now,
  ) {
    this.address = client.address;
    this.port = client.port;
    this.protocol = protocol;
    this.#writer = new BufferedWriter(socket);
  }

  received(data: Buffer): void {
    if (this.#isClosed) return;
    if (!this.#stream.push(data, (message) => this.server.receive(message, this))) this.close();
  }

  send(message: Uint8Array): boolean {
    if (this.#isClosed) return false;
    if (this.#writer.pendingBytes > 0) return this.#wait(message);
    this.#add(message);
    return true;
  }

  #wait(message: Uint8Array): boolean {
    if (this.#waitingBytes + message.length > MAX_WAITING_BYTES) return false;
    this.#waiting.push({ message: Buffer.from(message), atMs: this.now() });
    this.#waitingBytes += message.length;
    return true;
  }

  #add(message: Uint8Array): void {
    if (this.#batched + message.length > BATCH_BYTES) this.#flush();
    if (message.length > BATCH_BYTES) {
      this.#writer.write(message);
      return;
    }
    if (this.#batched === 0) {
      this.#batch ??= Buffer.allocUnsafe(BATCH_BYTES);
      this.scheduler.add(this.#scheduledFlush);
    }
    this.#batch?.set(message, this.#batched);
    this.#batched += message.length;
  }

  #flush(): void {
    if (this.#batched === 0 || !this.#batch) return;
    const bytes = this.#batch.subarray(0, this.#batched);
    this.#batched = 0;
    if (!this.#isClosed) this.#writer.write(bytes);
  }

  drained(): void {
    this.#writer.drained();
    let taken = 0;
    const staleBefore = this.now() - MAX_WAIT_MS;
    for (const { message, atMs } of this.#waiting) {
      if (this.#writer.pendingBytes > 0) break;
      taken++;
      this.#waitingBytes -= message.length;
      // A response is sent even if it is late, because clients do not repeat requests over TCP.
      if (atMs < staleBefore && isMedia(message)) this.server.counters.dropped++;
      else this.#add(message);
    }
    if (taken > 0) this.#waiting = this.#waiting.slice(taken);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#flush();
    this.#writer.end();
    this.closed();
  }

  closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#batch = null;
    this.#waiting = [];
    this.server.closed(this);
  }
}

function isMedia(message: Buffer): boolean {
  return isChannelData(message) || isDataIndication(message);
}
