/** Which TCP connections a media port holds: idle ones from one address, or from many, deny it to nobody. */
import { parseIp } from "../wire/stun/stun.ts";

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

/** `unproven`, oldest first, may still name some who have shown a check since: they are taken out when there seem to be too many. */
type Holder<Connection> = { connections: number; readonly unproven: Set<Connection> };

/**
 * Who is connected. Whoever has shown nothing yet gives way, the oldest first; whoever has, stays. Thousands may come at once,
 * and each is weighed on the thread that forwards media: nobody's coming costs a look at everybody else.
 */
export class Admission<Connection extends Admissible> {
  /** Oldest first, each with who holds it. */
  readonly #connections = new Map<Connection, string>();
  readonly #holders = new Map<string, Holder<Connection>>();

  get size(): number {
    return this.#connections.size;
  }

  /** False: there is no room, and nobody to give way. */
  admit(connection: Connection): boolean {
    const name = holderOf(connection.address);
    const holder = this.#holders.get(name);
    if (holder && isFull(holder)) {
      const [oldest] = holder.unproven;
      if (!this.#giveWay(oldest)) return false;
    } else if (this.size >= MAX_CONNECTIONS) {
      if (!this.#giveWay(this.#oldestUnproven())) return false;
    }
    this.#add(connection, name);
    return true;
  }

  /** It is closed. */
  forget(connection: Connection): void {
    const name = this.#connections.get(connection);
    const holder = name === undefined ? undefined : this.#holders.get(name);
    if (name === undefined || !holder) return;
    this.#connections.delete(connection);
    holder.unproven.delete(connection);
    holder.connections--;
    if (holder.connections === 0) this.#holders.delete(name);
  }

  closeAll(): void {
    for (const connection of [...this.#connections.keys()]) connection.close();
  }

  #add(connection: Connection, name: string): void {
    const holder = this.#holders.get(name) ?? { connections: 0, unproven: new Set() };
    this.#holders.set(name, holder);
    this.#connections.set(connection, name);
    holder.connections++;
    if (!connection.authenticated) holder.unproven.add(connection);
  }

  #oldestUnproven(): Connection | undefined {
    for (const connection of this.#connections.keys()) if (!connection.authenticated) return connection;
    return undefined;
  }

  #giveWay(connection: Connection | undefined): boolean {
    if (!connection) return false;
    this.forget(connection);
    connection.close();
    return true;
  }
}

function isFull<Connection extends Admissible>({ connections, unproven }: Holder<Connection>): boolean {
  if (unproven.size < MAX_UNPROVEN_PER_ADDRESS && connections < MAX_PER_ADDRESS) return false;
  for (const connection of unproven) if (connection.authenticated) unproven.delete(connection);
  return unproven.size >= MAX_UNPROVEN_PER_ADDRESS || connections >= MAX_PER_ADDRESS;
}

/** An IPv4 address, or the /64 that one subscriber has of IPv6. */
function holderOf(address: string): string {
  const bytes = address.startsWith("::ffff:") ? undefined : parseIp(address);
  return bytes?.length === 16 ? bytes.subarray(0, 8).join(".") : address;
}
