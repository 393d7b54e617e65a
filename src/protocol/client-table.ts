/**
 * The clients behind loopback ports. The TLS thread terminates the connections of clients and opens connections of its own to the
 * other threads, which look up the client here, in shared memory. Only the TLS thread writes, before it sends the first byte on a
 * socket, so a port without an entry belongs to another process of this machine.
 */
export type ClientAddress = { address: string; port: number };

const PORTS = 65_536;
/**
 * The client's family, the relayed family, the client's port, the relayed port, and two IP addresses of up to 16 bytes.
 */
const SLOT_BYTES = 40;
const OFFSET = { clientFamily: 0, relayedFamily: 1, clientPort: 2, relayedPort: 4, client: 6, relayed: 22 } as const;
const EMPTY = 0;

export class ClientTable {
  readonly memory: SharedArrayBuffer;
  readonly #bytes: Uint8Array;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(PORTS * SLOT_BYTES)) {
    this.memory = memory;
    this.#bytes = new Uint8Array(memory);
  }

  /** `relayed` is the address that the client uses through the TURN relay. */
  set(port: number, client: ClientAddress, relayed: ClientAddress | null = null): void {
    const slot = port * SLOT_BYTES;
    this.#write(slot + OFFSET.client, slot + OFFSET.clientPort, client);
    if (relayed) this.#write(slot + OFFSET.relayed, slot + OFFSET.relayedPort, relayed);
    this.#bytes[slot + OFFSET.relayedFamily] = relayed ? familyOf(relayed.address) : EMPTY;
    // The family is written last: a reader that sees the family sees the rest.
    Atomics.store(this.#bytes, slot + OFFSET.clientFamily, familyOf(client.address));
  }

  clear(port: number): void {
    Atomics.store(this.#bytes, port * SLOT_BYTES, EMPTY);
  }

  clearAll(): void {
    for (let port = 0; port < PORTS; port++) if (this.has(port)) this.clear(port);
  }

  has(port: number): boolean {
    return Atomics.load(this.#bytes, port * SLOT_BYTES + OFFSET.clientFamily) !== EMPTY;
  }

  clientOf(port: number): ClientAddress | undefined {
    const slot = port * SLOT_BYTES;
    return this.#read(
      Atomics.load(this.#bytes, slot + OFFSET.clientFamily),
      slot + OFFSET.client,
      slot + OFFSET.clientPort,
    );
  }

  relayedOf(port: number): ClientAddress | undefined {
    const slot = port * SLOT_BYTES;
    if (!this.has(port)) return undefined;
    return this.#read(
      this.#bytes[slot + OFFSET.relayedFamily] ?? EMPTY,
      slot + OFFSET.relayed,
      slot + OFFSET.relayedPort,
    );
  }

  #write(at: number, portAt: number, { address, port }: ClientAddress): void {
    this.#bytes.set(bytesOf(address), at);
    this.#bytes[portAt] = port >> 8;
    this.#bytes[portAt + 1] = port & 255;
  }

  #read(family: number, at: number, portAt: number): ClientAddress | undefined {
    if (family === EMPTY) return undefined;
    const bytes = this.#bytes.subarray(at, at + family);
    const port = ((this.#bytes[portAt] ?? 0) << 8) | (this.#bytes[portAt + 1] ?? 0);
    return { address: textOf(bytes), port };
  }
}

function familyOf(address: string): number {
  return address.includes(":") ? 16 : 4;
}

function bytesOf(address: string): number[] {
  if (!address.includes(":")) return address.split(".").map(Number);
  const [head = "", tail] = address.split("::");
  const groups = (part: string) => (part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16)));
  const front = groups(head);
  const back = groups(tail ?? "");
  const gap = tail === undefined ? 0 : 8 - front.length - back.length;
  return [...front, ...new Array<number>(gap).fill(0), ...back].flatMap((group) => [group >> 8, group & 255]);
}

/** IPv6 as in RFC 5952: the longest run of zeros is omitted. */
function textOf(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups: string[] = [];
  for (let at = 0; at < 16; at += 2) groups.push((((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)).toString(16));
  const zeros = [...groups.join(":").matchAll(/(?:^|:)(?:0(?::|$)){2,}/g)].map(([run]) => run);
  const longest = zeros.sort((a, b) => b.length - a.length)[0];
  return longest === undefined ? groups.join(":") : groups.join(":").replace(longest, "::");
}
