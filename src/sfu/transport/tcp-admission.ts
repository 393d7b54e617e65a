/** Which TCP connections a media port holds: idle ones from one address, or from many, deny it to nobody. */
import { parseIp } from "../ice/stun-write.ts";

export const MAX_CONNECTIONS = 2_000;
/** A large office behind one address, all of it without UDP. */
const MAX_PER_ADDRESS = 500;
/** Between opening a connection and the first check lies one round trip: few are under way at once, whoever they are. */
export const MAX_UNPROVEN_PER_ADDRESS = 32;

type Admissible = {
  readonly address: string;
  /** It has shown a valid check. */
  readonly authenticated: boolean;
  close(): void;
};

/** Who is connected. Whoever has shown nothing yet gives way, the oldest first; whoever has, stays. */
export class Admission<Connection extends Admissible> {
  /** Oldest first. */
  readonly connections = new Set<Connection>();

  /** False: there is no room, and nobody to give way. */
  admit(connection: Connection): boolean {
    const holder = holderOf(connection.address);
    const neighbours = [...this.connections].filter(({ address }) => holderOf(address) === holder);
    const unproven = neighbours.filter(({ authenticated }) => !authenticated);
    if (unproven.length >= MAX_UNPROVEN_PER_ADDRESS || neighbours.length >= MAX_PER_ADDRESS) {
      if (!this.#giveWay(unproven[0])) return false;
    } else if (this.connections.size >= MAX_CONNECTIONS) {
      if (!this.#giveWay([...this.connections].find(({ authenticated }) => !authenticated))) return false;
    }
    this.connections.add(connection);
    return true;
  }

  #giveWay(connection: Connection | undefined): boolean {
    if (!connection) return false;
    this.connections.delete(connection);
    connection.close();
    return true;
  }
}

/** An IPv4 address, or the /64 that one subscriber has of IPv6. */
function holderOf(address: string): string {
  const bytes = address.startsWith("::ffff:") ? undefined : parseIp(address);
  return bytes?.length === 16 ? bytes.subarray(0, 8).join(".") : address;
}
