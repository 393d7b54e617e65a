import type { Now } from "../../kernel/time/clock.ts";
import type { ClientAddress } from "../../protocol/client-table.ts";
import { isChannelData } from "../turn/channel-data.ts";
import type { ClientTransport, TransportProtocol } from "../turn/transports.ts";
import { isDataIndication } from "../turn/message.ts";
import type { TurnServer } from "../turn/server.ts";
import { TurnStream } from "../turn/framing.ts";
import type { ConnectionHandler } from "./http-forwarding.ts";
import { type StreamSocket, BufferedWriter } from "./sockets.ts";

/** A client that reads more slowly than this fills up loses whole packets, as on any narrow link. */
const MAX_WAITING_BYTES = 256 * 1_024;
/**
 * Media that has waited longer is of no use any more, and only makes what follows late as well. Not shorter: a connection
 * that repeats lost segments stands still for some hundred milliseconds, and what comes right after is still shown.
 */
const MAX_WAIT_MS = 1_000;
/** What fits into one TLS record. */
const BATCH_BYTES = 16_000;

/**
 * Media comes in bursts, a few packets for each client; each write costs as much as several packets. So what is to leave
 * waits for the rest of its burst, and one timer serves everybody.
 */
const GATHER_MS = 2;

export class WriteScheduler {
  #waiting: (() => void)[] = [];

  add(leave: () => void): void {
    this.#waiting.push(leave);
    if (this.#waiting.length === 1) setTimeout(this.#depart, GATHER_MS);
  }

  readonly #depart = () => {
    const leaving = this.#waiting;
    this.#waiting = [];
    for (const leave of leaving) leave();
  };
}

type Waiting = { message: Buffer; atMs: number };

/** One TURN client on a connection. What goes to it within a moment leaves as one write. */
export class TurnConnection implements ConnectionHandler, ClientTransport {
  readonly address: string;
  readonly port: number;
  readonly transport: TransportProtocol;
  readonly #outlet: BufferedWriter;
  readonly #server: TurnServer;
  readonly #now: Now;
  readonly #stream = new TurnStream();
  #batch: Buffer | null = null;
  #batched = 0;
  /** While the socket takes nothing. Oldest first. */
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #isClosed = false;

  readonly #departures: WriteScheduler;
  readonly #leave = () => this.#flush();

  constructor(
    socket: StreamSocket,
    client: ClientAddress,
    transport: TransportProtocol,
    server: TurnServer,
    departures: WriteScheduler,
    now: Now,
  ) {
    this.address = client.address;
    this.port = client.port;
    this.transport = transport;
    this.#outlet = new BufferedWriter(socket);
    this.#server = server;
    this.#departures = departures;
    this.#now = now;
  }

  received(data: Buffer): void {
    if (this.#isClosed) return;
    if (!this.#stream.push(data, (message) => this.#server.receive(message, this))) this.close();
  }

  send(message: Uint8Array): boolean {
    if (this.#isClosed) return false;
    if (this.#outlet.pendingBytes > 0) return this.#wait(message);
    this.#add(message);
    return true;
  }

  #wait(message: Uint8Array): boolean {
    if (this.#waitingBytes + message.length > MAX_WAITING_BYTES) return false;
    this.#waiting.push({ message: Buffer.from(message), atMs: this.#now() });
    this.#waitingBytes += message.length;
    return true;
  }

  #add(message: Uint8Array): void {
    if (this.#batched + message.length > BATCH_BYTES) this.#flush();
    if (message.length > BATCH_BYTES) {
      this.#outlet.write(message);
      return;
    }
    if (this.#batched === 0) {
      this.#batch ??= Buffer.allocUnsafe(BATCH_BYTES);
      this.#departures.add(this.#leave);
    }
    this.#batch?.set(message, this.#batched);
    this.#batched += message.length;
  }

  #flush(): void {
    if (this.#batched === 0 || !this.#batch) return;
    const bytes = this.#batch.subarray(0, this.#batched);
    this.#batched = 0;
    if (!this.#isClosed) this.#outlet.write(bytes);
  }

  drained(): void {
    this.#outlet.drained();
    let taken = 0;
    const staleBefore = this.#now() - MAX_WAIT_MS;
    for (const { message, atMs } of this.#waiting) {
      if (this.#outlet.pendingBytes > 0) break;
      taken++;
      this.#waitingBytes -= message.length;
      // An answer is waited for, however late: over TCP nobody asks again.
      if (atMs < staleBefore && isMedia(message)) this.#server.counters.dropped++;
      else this.#add(message);
    }
    if (taken > 0) this.#waiting = this.#waiting.slice(taken);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#flush();
    this.#outlet.end();
    this.closed();
  }

  closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#batch = null;
    this.#waiting = [];
    this.#server.closed(this);
  }
}

function isMedia(message: Buffer): boolean {
  return isChannelData(message) || isDataIndication(message);
}
