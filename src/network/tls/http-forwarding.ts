/**
 * Forwards decrypted HTTP connections to the plain HTTP server of this process, together with the client's IP address.
 */
import type { Socket } from "bun";
import { forwardedForLine, type LoopbackTransport } from "../../kernel/net/loopback-transport.ts";
import { type IdleThresholds, type IdleWatch, onIdle } from "../../kernel/scheduling/idle.ts";
import type { Timers } from "../../kernel/time/timers.ts";
import type { ClientAddress, ClientTable } from "../../protocol/client-table.ts";
import { HeaderInserter, type RefusalStatus } from "./header-inserter.ts";
import { BufferedWriter, ClosedOnce, type ConnectionHandler, type StreamSocket } from "./sockets.ts";

type Upstream = { hostname: string; port: number };

/** A side that does not read pauses the other, so that at most this much is buffered in each direction. */
const HIGH_WATER_BYTES = 256 * 1_024;

const IDLE: IdleThresholds = { minEvents: 500, checkEveryMs: 2_000, maxEvents: 20 };

/**
 * Counts the open connections. After a burst of opened or closed connections, the memory of their handshakes is
 * collected.
 */
export class HttpConnections {
  open = 0;
  readonly #idle: IdleWatch;

  constructor(timers: Timers, collect: () => void, onError: (error: unknown) => void) {
    this.#idle = onIdle(IDLE, timers, collect, onError);
  }

  add(handler: ConnectionHandler): ConnectionHandler {
    this.open++;
    this.#idle.activity();
    return new ClosedOnce(handler, this.#closed);
  }

  readonly #closed = () => {
    this.open--;
    this.#idle.activity();
  };
}

/** The server finds the client's IP address in the table, by the port of the forwarded connection. */
export function forwardOverTcp(
  upstream: Upstream,
  socket: StreamSocket,
  client: ClientAddress,
  clients: ClientTable,
): ConnectionHandler {
  const forwarded = new ForwardedConnection(socket, null);
  connectTcp(upstream, forwarded, client, clients);
  return forwarded;
}

/** Each request carries the client's IP address in a header. */
export function forwardOverLoopback(
  loopback: LoopbackTransport,
  upstream: Upstream,
  socket: StreamSocket,
  client: ClientAddress,
  clients: ClientTable,
): ConnectionHandler {
  const inserter = new HeaderInserter(forwardedForLine(loopback, client.address));
  const forwarded = new ForwardedConnection(socket, inserter);
  const connecting = Bun.connect<ForwardedConnection>({
    unix: loopback.name,
    data: forwarded,
    socket: LOOPBACK_HANDLERS,
  });
  // A Unix socket, unlike a port, refuses at once when its queue of connections is full.
  connecting.catch(() => connectTcp(upstream, forwarded, client, clients));
  return forwarded;
}

const refusal = (status: string) => Buffer.from(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
const REFUSALS: Record<RefusalStatus, Buffer> = {
  400: refusal("400 Bad Request"),
  431: refusal("431 Request Header Fields Too Large"),
};

/** Thousands of these connections are idle at a time, so each uses as little memory as possible. */
class ForwardedConnection implements ConnectionHandler {
  readonly #client: BufferedWriter;
  #upstream: BufferedWriter | null = null;
  /** Bytes from the client that arrived before the upstream was connected. */
  #early: Buffer[] | null = null;
  #isOver = false;
  #inserter: HeaderInserter | null;

  constructor(client: StreamSocket, inserter: HeaderInserter | null) {
    this.#client = new BufferedWriter(client);
    this.#inserter = inserter;
  }

  connected(upstream: StreamSocket): void {
    if (this.#isOver) {
      upstream.end();
      return;
    }
    this.#upstream = new BufferedWriter(upstream);
    for (const data of this.#early ?? []) this.#upstream.write(data);
    this.#early = null;
    if (this.#upstream.pendingBytes < HIGH_WATER_BYTES) this.#client.socket.resume();
  }

  received(data: Buffer): void {
    if (this.#inserter === null) {
      this.#toUpstream(data);
      return;
    }
    const passed = this.#inserter.pass(data);
    if (passed.length > 0) this.#toUpstream(passed);
    if (this.#inserter.isDone) this.#inserter = null;
    else if (this.#inserter.refusal) {
      this.#client.write(REFUSALS[this.#inserter.refusal]);
      this.closed();
      this.upstreamClosed();
    }
  }

  drained(): void {
    this.#client.drained();
    if (this.#client.pendingBytes === 0) this.#upstream?.socket.resume();
  }

  /** The other side receives its pending bytes and is then closed. */
  closed(): void {
    this.#isOver = true;
    this.#upstream?.end();
  }

  upstreamReceived(data: Buffer): void {
    this.#client.write(data);
    if (this.#client.pendingBytes > HIGH_WATER_BYTES) this.#upstream?.socket.pause();
  }

  upstreamDrained(): void {
    this.#upstream?.drained();
    if (this.#upstream?.pendingBytes === 0) this.#client.socket.resume();
  }

  upstreamClosed(): void {
    this.#isOver = true;
    this.#client.end();
  }

  #toUpstream(data: Buffer): void {
    if (!this.#upstream) {
      this.#early ??= [];
      this.#early.push(Buffer.from(data));
      this.#client.socket.pause();
      return;
    }
    this.#upstream.write(data);
    if (this.#upstream.pendingBytes > HIGH_WATER_BYTES) this.#client.socket.pause();
  }
}

type UpstreamSocket = Socket<ForwardedConnection>;

const UPSTREAM_HANDLERS = {
  data: ({ data: forwarded }: UpstreamSocket, data: Buffer) => forwarded.upstreamReceived(data),
  drain: ({ data: forwarded }: UpstreamSocket) => forwarded.upstreamDrained(),
  end: (socket: UpstreamSocket) => void socket.end(),
  error: () => {},
};

const LOOPBACK_HANDLERS = {
  ...UPSTREAM_HANDLERS,
  open: (socket: UpstreamSocket) => socket.data.connected(socket),
  close: ({ data: forwarded }: UpstreamSocket) => forwarded.upstreamClosed(),
};

function connectTcp(
  upstream: Upstream,
  forwarded: ForwardedConnection,
  client: ClientAddress,
  clients: ClientTable,
): void {
  let ownPort: number | null = null;
  const connecting = Bun.connect<ForwardedConnection>({
    ...upstream,
    data: forwarded,
    socket: {
      ...UPSTREAM_HANDLERS,
      open(socket) {
        // The entry is in the table before the first byte is sent, and so before the server looks it up.
        ownPort = socket.localPort;
        clients.set(ownPort, client);
        socket.setNoDelay(true);
        forwarded.connected(socket);
      },
      close() {
        if (ownPort !== null) clients.clear(ownPort);
        forwarded.upstreamClosed();
      },
      connectError: () => forwarded.upstreamClosed(),
    },
  });
  connecting.catch(() => forwarded.upstreamClosed());
}
