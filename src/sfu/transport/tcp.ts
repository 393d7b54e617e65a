/** ICE-TCP, passive (RFC 6544): for clients whose network lets no UDP through. Packets travel in RFC 4571 frames. */

import { createUnsentBound } from "../../kernel/net/socket-options.ts";
import { TcpAdmission } from "./tcp-admission.ts";

const MAX_FRAME_BYTES = 2_048;
/** The limit of media that waits for a slow connection. Packets beyond it are lost. */
const MAX_PENDING_BYTES = 256 * 1_024;
/** The limit of bytes handed to the socket: enough to keep a fast connection busy until it is writable again. */
const MAX_UNSENT_BYTES = 16 * 1_024;
/** A connection without a valid check is closed after this time. */
const AUTHENTICATE_WITHIN_MS = 10_000;

type TcpOptions = {
  hostname: string;
  port: number;
  /** Other sockets that set this option as well may listen on the same port. */
  reusePort?: boolean;
  maxPendingBytes?: number;
  onPacket(data: Buffer, connection: TcpConnection): void;
  onClosed(connection: TcpConnection): void;
};

type State = { connection: TcpConnection };

export class TcpConnection {
  readonly address: string;
  readonly port: number;
  /** Set by the first valid check. */
  authenticated = false;
  readonly #socket: Bun.Socket<State>;
  readonly #maxPendingBytes: number;
  #incoming: Buffer = Buffer.alloc(0);
  #pending: Buffer[] = [];
  #pendingBytes = 0;

  constructor(socket: Bun.Socket<State>, maxPendingBytes = MAX_PENDING_BYTES) {
    this.#socket = socket;
    this.#maxPendingBytes = maxPendingBytes;
    this.address = socket.remoteAddress;
    this.port = socket.remotePort;
  }

  /** Rejects when nothing listens there. */
  static async connect(options: TcpOptions): Promise<TcpConnection> {
    const { hostname, port } = options;
    const socket = await Bun.connect<State>({
      ...{ hostname, port },
      socket: {
        open(socket) {
          socket.data = { connection: new TcpConnection(socket, options.maxPendingBytes) };
        },
        ...handlers(options),
      },
    });
    return socket.data.connection;
  }

  /** Copies the bytes. */
  send(...packets: readonly Uint8Array[]): void {
    if (this.#pendingBytes > this.#maxPendingBytes) return;
    const frames = Buffer.allocUnsafe(packets.reduce((bytes, { length }) => bytes + 2 + length, 0));
    let at = 0;
    for (const packet of packets) {
      frames.writeUInt16BE(packet.length, at);
      frames.set(packet, at + 2);
      at += 2 + packet.length;
    }
    if (this.#pending.length > 0) this.#wait(frames);
    else {
      const written = this.#write(frames);
      if (written < frames.length) this.#wait(frames.subarray(written));
    }
  }

  #write(data: Buffer): number {
    const written = this.#socket.write(data);
    return written < 0 ? data.length : written;
  }

  #wait(frame: Buffer): void {
    this.#pending.push(frame);
    this.#pendingBytes += frame.length;
  }

  drained(): void {
    while (this.#pending.length > 0) {
      const frame = this.#pending[0] as Buffer;
      const written = this.#write(frame);
      this.#pendingBytes -= written;
      if (written < frame.length) {
        this.#pending[0] = frame.subarray(written);
        return;
      }
      this.#pending.shift();
    }
  }

  /** Returns false when the stream is malformed. */
  receive(data: Buffer, onPacket: (packet: Buffer) => void): boolean {
    let rest = this.#incoming.length > 0 ? Buffer.concat([this.#incoming, data]) : data;
    while (rest.length >= 2) {
      const length = rest.readUInt16BE(0);
      if (length > MAX_FRAME_BYTES) return false;
      if (rest.length < 2 + length) break;
      onPacket(Buffer.from(rest.subarray(2, 2 + length)));
      rest = rest.subarray(2 + length);
    }
    this.#incoming = Buffer.from(rest);
    return true;
  }

  /** Closes at once. Otherwise a peer that never closes its half would hold the connection, and a descriptor of the server. */
  close(): void {
    this.#socket.terminate();
  }
}

function handlers({ onPacket, onClosed }: Pick<TcpOptions, "onPacket" | "onClosed">) {
  return {
    data({ data: { connection } }: Bun.Socket<State>, data: Buffer) {
      const isValid = connection.receive(data, (packet) => onPacket(packet, connection));
      if (!isValid) connection.close();
    },
    drain: ({ data }: Bun.Socket<State>) => data.connection.drained(),
    close: ({ data }: Bun.Socket<State>) => onClosed(data.connection),
    error: ({ data }: Bun.Socket<State>) => data?.connection.close(),
  };
}

export class TcpPort {
  readonly #options: TcpOptions;
  /** Null while no connection is accepted. */
  #listener: Bun.TCPSocketListener<State> | null;
  readonly #admission = new TcpAdmission<TcpConnection>();
  readonly #unsentBound = createUnsentBound(MAX_UNSENT_BYTES);

  static listen(options: TcpOptions): TcpPort {
    return new TcpPort(options);
  }

  private constructor(options: TcpOptions) {
    this.#listener = this.#listen(options);
    this.#options = { ...options, port: this.#listener.port };
  }

  #listen({ hostname, port, reusePort = false, onPacket, onClosed }: TcpOptions): Bun.TCPSocketListener<State> {
    return Bun.listen<State>({
      // Spread, because Bun's types of options do not know `reusePort`.
      ...{ hostname, port, reusePort },
      socket: {
        open: (socket) => this.#admit(socket),
        ...handlers({
          onPacket,
          onClosed: (connection) => {
            this.#admission.forget(connection);
            onClosed(connection);
          },
        }),
      },
    });
  }

  #admit(socket: Bun.Socket<State>): void {
    const connection = new TcpConnection(socket, this.#options.maxPendingBytes);
    socket.data = { connection };
    if (!this.#admission.admit(connection)) {
      connection.close();
      return;
    }
    const { fd } = socket as { fd?: number };
    if (fd !== undefined) this.#unsentBound.apply(fd);
    setTimeout(() => {
      if (!connection.authenticated) connection.close();
    }, AUTHENTICATE_WITHIN_MS).unref();
  }

  get connections(): number {
    return this.#admission.size;
  }

  get port(): number {
    return this.#options.port;
  }

  /** The descriptor of the listening socket; null while not listening. */
  get fd(): number | null {
    return (this.#listener as { fd?: number } | null)?.fd ?? null;
  }

  /** Leaves new connections to another socket at the port. Accepted connections stay. */
  stopAccepting(): void {
    this.#listener?.stop();
    this.#listener = null;
  }

  /** Throws when the port is taken. */
  accept(): void {
    this.#listener ??= this.#listen(this.#options);
  }

  close(): void {
    this.#admission.closeAll();
    this.#listener?.stop(true);
    this.#unsentBound.close();
  }
}
