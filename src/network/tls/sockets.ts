/** The members of Bun's TCP and TLS sockets that the TLS thread uses. */
export type StreamSocket = {
  /**
   * Returns the number of written bytes: fewer than given when the kernel's buffer is full, negative when the socket is
   * closed.
   */
  write(data: Uint8Array): number;
  end(): void;
  terminate(): void;
  pause(): void;
  resume(): void;
  /** The file descriptor of the TCP connection; not available on every platform. */
  readonly fd?: number;
};

export type ConnectionHandler = {
  received(data: Buffer): void;
  drained(): void;
  closed(): void;
};

/** TLS may report the end of a connection more than once. */
export class ClosedOnce implements ConnectionHandler {
  #onClosed: (() => void) | null;

  constructor(
    private readonly handler: ConnectionHandler,
    onClosed: () => void,
  ) {
    this.#onClosed = onClosed;
  }

  received(data: Buffer): void {
    this.handler.received(data);
  }

  drained(): void {
    this.handler.drained();
  }

  closed(): void {
    if (this.#onClosed === null) return;
    this.#onClosed();
    this.#onClosed = null;
    this.handler.closed();
  }
}

/** Writes to a socket and keeps the bytes that do not fit, in order. */
export class BufferedWriter {
  readonly socket: StreamSocket;
  /** Null while everything fits, which saves most connections an array. */
  #rest: Buffer[] | null = null;
  #pendingBytes = 0;
  #ending = false;

  constructor(socket: StreamSocket) {
    this.socket = socket;
  }

  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** The caller may reuse the bytes afterwards. */
  write(data: Uint8Array): void {
    if (this.#ending) return;
    const written = this.#pendingBytes > 0 ? 0 : Math.max(0, this.socket.write(data));
    if (written === data.length) return;
    this.#rest ??= [];
    this.#rest.push(Buffer.from(data.subarray(written)));
    this.#pendingBytes += data.length - written;
  }

  drained(): void {
    const rest = this.#rest ?? [];
    while (rest.length > 0) {
      const [data = Buffer.alloc(0)] = rest;
      const written = Math.max(0, this.socket.write(data));
      this.#pendingBytes -= written;
      if (written < data.length) {
        rest[0] = data.subarray(written);
        return;
      }
      rest.shift();
    }
    this.#rest = null;
    if (this.#ending) this.socket.end();
  }

  end(): void {
    if (this.#ending) return;
    this.#ending = true;
    if (this.#pendingBytes === 0) this.socket.end();
  }
}
