/** Datagrams gathered in one arena, to be sent together. A packet allocates nothing but the view that is sent. */

/** Has room for the largest datagram that is received and everything that a copy may add to it. */
export const PACKET_BUFFER_BYTES = 2304;
/** With more packets in one system call the kernel drops some. */
export const SEND_BATCH_PACKETS = 200;

/** data, port, address, data, port, address …: as `Bun.udpSocket().sendMany` takes it. */
export type SendEntries = (Uint8Array | number | string)[];

/** `destination` in fast-path.h: 16 bytes of address, the scope, then port and length in the byte order of the machine. */
const DESTINATION_BYTES = 24;
export const DESTINATION_WORDS = DESTINATION_BYTES / 4;
const DESTINATION_SHORTS = DESTINATION_BYTES / 2;
const PORT_AT = 10;
const LENGTH_AT = 11;

/** A socket, for native code. */
export type Descriptor = { readonly fd: number; readonly isV6: boolean };

export class SendBatch {
  /** Buffer after buffer, PACKET_BUFFER_BYTES each. */
  readonly arena: Uint8Array<ArrayBuffer>;
  /** The destination of each buffer, for native code. */
  readonly destinations: Uint32Array<ArrayBuffer>;
  readonly #shorts: Uint16Array;
  readonly addresses: string[] = [];
  /** By buffer: 1 when its destination holds the bytes of its address. */
  readonly hasAddress: Uint8Array;
  readonly capacity: number;
  readonly #buffers: Uint8Array[] = [];
  /** By buffer: the view that was sent last. Most packets have one size, and making a view is costly. */
  readonly #packets: Uint8Array[] = [];
  readonly #send: (entries: SendEntries, count: number) => void;
  readonly #sendNatively: ((batch: SendBatch, count: number) => boolean) | null;
  #count = 0;

  /**
   * `send` must have copied or sent the bytes when it returns, because the arena is reused at once. `sendNatively` is tried first:
   * it returns true when it has sent all packets; otherwise the packets that it did send have a length of 0.
   */
  constructor(
    send: (entries: SendEntries, count: number) => void,
    capacity = SEND_BATCH_PACKETS,
    sendNatively: ((batch: SendBatch, count: number) => boolean) | null = null,
  ) {
    this.#send = send;
    this.#sendNatively = sendNatively;
    this.capacity = capacity;
    this.arena = new Uint8Array(capacity * PACKET_BUFFER_BYTES);
    this.destinations = new Uint32Array(capacity * DESTINATION_WORDS);
    this.#shorts = new Uint16Array(this.destinations.buffer);
    this.hasAddress = new Uint8Array(capacity);
    for (let i = 0; i < capacity; i++) {
      this.#buffers.push(this.arena.subarray(i * PACKET_BUFFER_BYTES, (i + 1) * PACKET_BUFFER_BYTES));
      this.addresses.push("");
    }
  }

  get count(): number {
    return this.#count;
  }

  /** The next free buffer: the caller writes the packet to its start, then calls `commit`. */
  buffer(): Uint8Array {
    return this.#buffers[this.#count] as Uint8Array;
  }

  commit(length: number, port: number, address: string): void {
    const at = this.#count;
    this.#shorts[at * DESTINATION_SHORTS + PORT_AT] = port;
    this.#shorts[at * DESTINATION_SHORTS + LENGTH_AT] = length;
    this.addresses[at] = address;
    this.hasAddress[at] = 0;
    this.#advance(1);
  }

  /** Native code has filled the next buffers and their destinations, one for each of `count` addresses. */
  commitFilled(addresses: readonly string[], from: number, count: number): void {
    for (let i = 0; i < count; i++) {
      this.addresses[this.#count + i] = addresses[from + i] as string;
      this.hasAddress[this.#count + i] = 1;
    }
    this.#advance(count);
  }

  #advance(count: number): void {
    this.#count += count;
    if (this.#count === this.capacity) this.flush();
  }

  /** 0 when the packet was sent already, or could not be protected. */
  length(buffer: number): number {
    return this.#shorts[buffer * DESTINATION_SHORTS + LENGTH_AT] as number;
  }

  port(buffer: number): number {
    return this.#shorts[buffer * DESTINATION_SHORTS + PORT_AT] as number;
  }

  markSent(buffer: number): void {
    this.#shorts[buffer * DESTINATION_SHORTS + LENGTH_AT] = 0;
  }

  flush(): void {
    const count = this.#count;
    if (count === 0) return;
    this.#count = 0;
    if (this.#sendNatively?.(this, count)) return;
    const entries = this.#entries(count);
    if (entries.length > 0) this.#send(entries, entries.length / 3);
  }

  #entries(count: number): SendEntries {
    const entries: SendEntries = [];
    for (let i = 0; i < count; i++) {
      const length = this.length(i);
      if (length === 0) continue;
      entries.push(this.#packet(i, length), this.port(i), this.addresses[i] as string);
    }
    return entries;
  }

  #packet(buffer: number, length: number): Uint8Array {
    const before = this.#packets[buffer];
    if (before?.length === length) return before;
    const packet = (this.#buffers[buffer] as Uint8Array).subarray(0, length);
    this.#packets[buffer] = packet;
    return packet;
  }
}
