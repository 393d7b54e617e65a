/** What the edge needs of a TCP or TLS socket; Bun's have it. */
export type EdgeSocket = {
  /** How many bytes it took; less than given when the kernel's buffer is full, negative when it is closed. */
  write(data: Uint8Array): number;
  end(): void;
  terminate(): void;
  pause(): void;
  resume(): void;
  /** Of the connection underneath; not every platform tells it. */
  readonly fd?: number;
};

/** Writes to a socket and keeps what does not fit, in order. */
export class Outlet {
  readonly socket: EdgeSocket;
  /** Null while everything fits: few are ever short of room. */
  #rest: Buffer[] | null = null;
  #pendingBytes = 0;
  #ending = false;

  constructor(socket: EdgeSocket) {
    this.socket = socket;
  }

  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** The bytes are the caller's again afterwards. */
  write(data: Uint8Array): void {
    if (this.#ending) return;
    const written = this.#pendingBytes > 0 ? 0 : Math.max(0, this.socket.write(data));
    if (written === data.length) return;
    this.#rest ??= [];
    this.#rest.push(Buffer.from(data.subarray(written)));
    this.#pendingBytes += data.length - written;
  }

  /** To be called when the socket has room again. */
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

  /** Closes once everything is written. */
  end(): void {
    if (this.#ending) return;
    this.#ending = true;
    if (this.#pendingBytes === 0) this.socket.end();
  }
}
