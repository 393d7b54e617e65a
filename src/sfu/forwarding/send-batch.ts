// Datagrams gathered in one arena, to be sent together. Nothing is allocated per packet but the view that is sent.

/** Room for the largest datagram we take plus what we add to it. */
export const SEND_SLOT_BYTES = 2304;
/** More than this in one system call makes the kernel drop. */
export const SEND_BATCH_PACKETS = 200;

/** data, port, address, data, port, address …: as `Bun.udpSocket().sendMany` takes it. */
export type SendEntries = (Uint8Array | number | string)[];

/** `destination` in send.c: 16 bytes of address, scope, then port and length in the byte order of the machine. */
const DESTINATION_BYTES = 24;
export const DESTINATION_WORDS = DESTINATION_BYTES / 4;
const DESTINATION_SHORTS = DESTINATION_BYTES / 2;
const PORT_AT = 10;
const LENGTH_AT = 11;

/** A socket, as native code knows it. */
export type Descriptor = { readonly fd: number; readonly isV6: boolean };

export class SendBatch {
  /** Slot after slot, SEND_SLOT_BYTES each. */
  readonly arena: Uint8Array<ArrayBuffer>;
  /** Where each slot goes, as native code has it. */
  readonly destinations: Uint32Array<ArrayBuffer>;
  readonly #shorts: Uint16Array;
  readonly addresses: string[] = [];
  /** By slot: 1 when the destination has the bytes of its address. */
  readonly located: Uint8Array;
  readonly capacity: number;
  readonly #slots: Uint8Array[] = [];
  /** By slot: the packet as it was sent last. Most are of one size, and views are dear. */
  readonly #packets: Uint8Array[] = [];
  readonly #send: (entries: SendEntries, count: number) => void;
  readonly #sendDirectly: ((batch: SendBatch, count: number) => boolean) | null;
  #count = 0;

  /**
   * `send` must have copied or sent the bytes when it returns: the arena is used again at once. `sendDirectly` is tried before
   * it, on the packets in the arena: true when it has sent them all, else those it has sent have a length of 0.
   */
  constructor(
    send: (entries: SendEntries, count: number) => void,
    capacity = SEND_BATCH_PACKETS,
    sendDirectly: ((batch: SendBatch, count: number) => boolean) | null = null,
  ) {
    this.#send = send;
    this.#sendDirectly = sendDirectly;
    this.capacity = capacity;
    this.arena = new Uint8Array(capacity * SEND_SLOT_BYTES);
    this.destinations = new Uint32Array(capacity * DESTINATION_WORDS);
    this.#shorts = new Uint16Array(this.destinations.buffer);
    this.located = new Uint8Array(capacity);
    for (let i = 0; i < capacity; i++) {
      this.#slots.push(this.arena.subarray(i * SEND_SLOT_BYTES, (i + 1) * SEND_SLOT_BYTES));
      this.addresses.push("");
    }
  }

  get count(): number {
    return this.#count;
  }

  /** A free slot: write the packet at its start, then `commit`. Those `ahead` of the first are taken by the commits after it. */
  slot(ahead = 0): Uint8Array {
    return this.#slots[this.#count + ahead] as Uint8Array;
  }

  commit(length: number, port: number, address: string): void {
    const at = this.#count;
    this.#shorts[at * DESTINATION_SHORTS + PORT_AT] = port;
    this.#shorts[at * DESTINATION_SHORTS + LENGTH_AT] = length;
    this.addresses[at] = address;
    this.located[at] = 0;
    this.#taken(1);
  }

  /** Native code has filled the next slots and their destinations: so many `packets` for each of `count` addresses. */
  commitFilled(addresses: readonly string[], from: number, count: number, packets: number): void {
    let at = this.#count;
    for (let i = from; i < from + count; i++)
      for (let end = at + packets; at < end; at++) {
        this.addresses[at] = addresses[i] as string;
        this.located[at] = 1;
      }
    this.#taken(count * packets);
  }

  #taken(count: number): void {
    this.#count += count;
    if (this.#count === this.capacity) this.flush();
  }

  /** 0: sent already, or never protected. */
  length(slot: number): number {
    return this.#shorts[slot * DESTINATION_SHORTS + LENGTH_AT] as number;
  }

  port(slot: number): number {
    return this.#shorts[slot * DESTINATION_SHORTS + PORT_AT] as number;
  }

  /** It has been sent. */
  done(slot: number): void {
    this.#shorts[slot * DESTINATION_SHORTS + LENGTH_AT] = 0;
  }

  flush(): void {
    const count = this.#count;
    if (count === 0) return;
    this.#count = 0;
    if (this.#sendDirectly?.(this, count)) return;
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

  #packet(slot: number, length: number): Uint8Array {
    const before = this.#packets[slot];
    if (before?.length === length) return before;
    const packet = (this.#slots[slot] as Uint8Array).subarray(0, length);
    this.#packets[slot] = packet;
    return packet;
  }
}
