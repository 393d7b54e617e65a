import { type Address, addressText, canonical } from "./address.ts";
import type { Peer } from "./line.ts";

/** The only ones to whom anything is relayed: media ports, by the addresses that candidates announce. */
export class PeerTable {
  readonly #byAddress = new Map<string, Peer>();
  readonly #hosts = new Set<string>();

  constructor(peers: readonly Peer[]) {
    for (const peer of peers) {
      // An operator may have written it otherwise than it is read from a message.
      const announced = { ...peer.announced, address: canonical(peer.announced.address) };
      this.#byAddress.set(addressText(announced), { ...peer, announced });
      this.#hosts.add(announced.address);
    }
  }

  find(announced: Address): Peer | undefined {
    return this.#byAddress.get(addressText(announced));
  }

  /** Permissions are for a host, whatever its ports. */
  hasHost(address: string): boolean {
    return this.#hosts.has(address);
  }
}
