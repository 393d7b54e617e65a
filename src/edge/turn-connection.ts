import type { ClientAddress } from "../protocol/client-table.ts";
import type { TurnLine, TurnTransport } from "../turn/line.ts";
import type { TurnServer } from "../turn/server.ts";
import { TurnStream } from "../turn/stream.ts";
import type { Carrier } from "./carrier.ts";
import { type EdgeSocket, Outlet } from "./socket.ts";

/** A client that reads more slowly than this fills up loses whole packets, as on any narrow link. */
const MAX_PENDING_BYTES = 256 * 1_024;
/** What fits into one TLS record. */
const BATCH_BYTES = 16_000;

/** One TURN client on a connection. What goes to it within one turn of the loop leaves as one write. */
export class TurnConnection implements Carrier, TurnLine {
  readonly address: string;
  readonly port: number;
  readonly transport: TurnTransport;
  readonly #outlet: Outlet;
  readonly #server: TurnServer;
  readonly #stream = new TurnStream();
  #batch: Buffer | null = null;
  #batched = 0;
  #isClosed = false;

  constructor(socket: EdgeSocket, client: ClientAddress, transport: TurnTransport, server: TurnServer) {
    this.address = client.address;
    this.port = client.port;
    this.transport = transport;
    this.#outlet = new Outlet(socket);
    this.#server = server;
  }

  received(data: Buffer): void {
    if (this.#isClosed) return;
    if (!this.#stream.push(data, (message) => this.#server.receive(message, this))) this.close();
  }

  send(message: Uint8Array): boolean {
    if (this.#isClosed || this.#outlet.pendingBytes + this.#batched + message.length > MAX_PENDING_BYTES) return false;
    if (this.#batched + message.length > BATCH_BYTES) this.#flush();
    if (message.length > BATCH_BYTES) {
      this.#outlet.write(message);
      return true;
    }
    if (this.#batched === 0) {
      this.#batch ??= Buffer.allocUnsafe(BATCH_BYTES);
      setImmediate(() => this.#flush());
    }
    this.#batch?.set(message, this.#batched);
    this.#batched += message.length;
    return true;
  }

  #flush(): void {
    if (this.#batched === 0 || !this.#batch) return;
    const bytes = this.#batch.subarray(0, this.#batched);
    this.#batched = 0;
    if (!this.#isClosed) this.#outlet.write(bytes);
  }

  drained(): void {
    this.#outlet.drained();
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
    this.#server.closed(this);
  }
}
