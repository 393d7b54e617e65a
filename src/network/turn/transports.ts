import { type Address, addressText, canonical } from "./address.ts";

export type TransportProtocol = "udp" | "tcp" | "tls";

/** A client's connection, or the source address of its datagrams; it identifies an allocation. */
export type ClientTransport = Address & {
  readonly protocol: TransportProtocol;
  /** False when the client reads too slowly and the message is dropped. The caller may reuse the bytes. */
  send(message: Uint8Array): boolean;
  close(): void;
};

/** A media port: its address for clients, and the address at which the relay reaches it. */
export type Peer = { readonly announced: Address; readonly reached: Address };

export type RelaySocket = { send(data: Uint8Array): void; close(): void };

export type RelayRequest = {
  peer: Peer;
  client: Address;
  relayed: Address;
  onPacket(data: Buffer): void;
};

export type OpenRelay = (request: RelayRequest) => Promise<RelaySocket>;

/** The relay serves only these media ports. */
export class PeerTable {
  readonly #byAddress = new Map<string, Peer>();
  readonly #hosts = new Set<string>();

  constructor(peers: readonly Peer[]) {
    for (const peer of peers) {
      // An operator may configure an address in another form than messages contain.
      const announced = { ...peer.announced, address: canonical(peer.announced.address) };
      this.#byAddress.set(addressText(announced), { ...peer, announced });
      this.#hosts.add(announced.address);
    }
  }

  find(announced: Address): Peer | undefined {
    return this.#byAddress.get(addressText(announced));
  }

  /** A permission applies to an IP address with all its ports. */
  hasHost(address: string): boolean {
    return this.#hosts.has(address);
  }
}
