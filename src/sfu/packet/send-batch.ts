// Datagrams gathered in one arena for one `sendMany`. Nothing is allocated per packet but the view that is sent.

/** Room for the largest datagram we take plus what we add to it. */
export const SEND_SLOT_BYTES = 2304;
/** More than this in one system call makes the kernel drop. */
export const SEND_BATCH_PACKETS = 200;

/** data, port, address, data, port, address …: as `Bun.udpSocket().sendMany` takes it. */
export type SendEntries = (Uint8Array | number | string)[];

export class SendBatch {
  readonly #arena: Uint8Array;
  readonly #slots: Uint8Array[] = [];
  readonly #send: (entries: SendEntries, count: number) => void;
  readonly #entries: SendEntries = [];
  #count = 0;

  /** `send` must have copied or sent the bytes when it returns: the arena is used again at once. */
  constructor(send: (entries: SendEntries, count: number) => void, capacity = SEND_BATCH_PACKETS) {
    this.#send = send;
    this.#arena = new Uint8Array(capacity * SEND_SLOT_BYTES);
    for (let i = 0; i < capacity; i++) {
      this.#slots.push(this.#arena.subarray(i * SEND_SLOT_BYTES, (i + 1) * SEND_SLOT_BYTES));
    }
  }

  get count(): number {
    return this.#count;
  }

  /** The free slot: write the packet at its start, then `commit`. Asking twice gives the same slot. */
  slot(): Uint8Array {
    return this.#slots[this.#count] as Uint8Array;
  }

  commit(length: number, port: number, address: string): void {
    this.#entries.push(this.slot().subarray(0, length), port, address);
    this.#count += 1;
    if (this.#count === this.#slots.length) this.flush();
  }

  flush(): void {
    if (this.#count === 0) return;
    const count = this.#count;
    this.#count = 0;
    try {
      this.#send(this.#entries, count);
    } finally {
      this.#entries.length = 0;
    }
  }
}
