// Datagrams gathered in one arena, to be sent together. Nothing is allocated per packet but the view that is sent.

/** Room for the largest datagram we take plus what we add to it. */
export const SEND_SLOT_BYTES = 2304;
/** More than this in one system call makes the kernel drop. */
export const SEND_BATCH_PACKETS = 200;

/** data, port, address, data, port, address …: as `Bun.udpSocket().sendMany` takes it. */
export type SendEntries = (Uint8Array | number | string)[];

export class SendBatch {
  /** Slot after slot, SEND_SLOT_BYTES each. */
  readonly arena: Uint8Array<ArrayBuffer>;
  /** By slot. */
  readonly lengths: Uint16Array;
  readonly ports: Uint16Array;
  readonly addresses: string[] = [];
  readonly capacity: number;
  readonly #slots: Uint8Array[] = [];
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
    this.lengths = new Uint16Array(capacity);
    this.ports = new Uint16Array(capacity);
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
    this.lengths[at] = length;
    this.ports[at] = port;
    this.addresses[at] = address;
    this.#count = at + 1;
    if (this.#count === this.capacity) this.flush();
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
      // Sent already, or never protected.
      if (this.lengths[i] === 0) continue;
      const packet = (this.#slots[i] as Uint8Array).subarray(0, this.lengths[i]);
      entries.push(packet, this.ports[i] as number, this.addresses[i] as string);
    }
    return entries;
  }
}
