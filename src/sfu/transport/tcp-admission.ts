/** Which TCP connections a media port holds: idle ones, from one address or from many, must not deny it to other clients. */
import { parseIp } from "../wire/stun/stun.ts";

export const MAX_CONNECTIONS = 2_000;
/** Enough for a large office behind one address without UDP. */
const MAX_PER_ADDRESS = 500;
/**
 * A connection is unproven for one round trip, until its first check arrives, so an address has few unproven ones at
 * the same time.
 */
export const MAX_UNPROVEN_PER_ADDRESS = 32;

type Admissible = {
  readonly address: string;
  /** The peer has sent a valid check. */
  readonly authenticated: boolean;
  close(): void;
};

/** The connections of one address. `unproven`, oldest first, is cleared of authenticated connections when it seems full. */
type Holder<Connection> = { connections: number; readonly unproven: Set<Connection> };

/**
 * Connections without a valid check are closed in favour of new ones, the oldest first; authenticated connections stay. Thousands
 * may arrive together, on the thread that forwards media, so admitting one must not require a search through all.
 */
export class TcpAdmission<Connection extends Admissible> {
  /** Oldest first, each with the name of its holder. */
  readonly #connections = new Map<Connection, string>();
  readonly #holders = new Map<string, Holder<Connection>>();

  get size(): number {
    return this.#connections.size;
  }

  /** Returns false when there is no room and no connection can be closed in its favour. */
  admit(connection: Connection): boolean {
    const name = holderOf(connection.address);
    const holder = this.#holders.get(name);
    if (holder && isFull(holder)) {
      const [oldest] = holder.unproven;
      if (!this.#close(oldest)) return false;
    } else if (this.size >= MAX_CONNECTIONS) {
      if (!this.#close(this.#oldestUnproven())) return false;
    }
    this.#add(connection, name);
    return true;
  }

  /** Called when a connection is closed. */
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

  #close(connection: Connection | undefined): boolean {
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

/** Returns the IPv4 address, or the /64 network that one customer has of IPv6. */
function holderOf(address: string): string {
  const bytes = address.startsWith("::ffff:") ? undefined : parseIp(address);
  return bytes?.length === 16 ? bytes.subarray(0, 8).join(".") : address;
}
