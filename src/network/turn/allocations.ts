import { randomInt } from "node:crypto";
import type { Now } from "../../kernel/time/clock.ts";
import { Allocation, newFrame } from "./allocation.ts";
import type { TurnCounters } from "./counters.ts";
import type { OpenRelay, ClientTransport } from "./transports.ts";
import { CountByHolder } from "./quota.ts";
import { Refusal } from "./refusal.ts";

export type TurnLimits = {
  /** Allocations of one id, of one address, and in all. */
  perId: number;
  perAddress: number;
  total: number;
  /** Each way, of one allocation. */
  bitsPerSecond: number;
};

type Options = {
  limits: TurnLimits;
  open: OpenRelay;
  holderOf: (address: string) => string;
  counters: TurnCounters;
  now: Now;
};

type Request = {
  client: ClientTransport;
  id: string;
  username: string;
  key: Buffer;
  transaction: string;
  address: string;
  /** Whether the relayed port has to be an even one. */
  isEven: boolean;
};

const FIRST_RELAYED_PORT = 49_152;
const RELAYED_PORTS = 65_536 - FIRST_RELAYED_PORT;

/** Every allocation, and how many each may hold. */
export class Allocations {
  readonly #options: Options;
  readonly #byLine = new Map<ClientTransport, Allocation>();
  readonly #byId = new CountByHolder();
  readonly #byAddress = new CountByHolder();
  readonly #relayedPorts = new Set<number>();
  readonly #frame = newFrame();

  constructor(options: Options) {
    this.#options = options;
  }

  get(line: ClientTransport): Allocation | undefined {
    return this.#byLine.get(line);
  }

  /** A copy: releasing while looking through them is allowed. */
  all(): Allocation[] {
    return [...this.#byLine.values()];
  }

  make({ address, isEven, ...request }: Request): Allocation | Refusal {
    const { limits, holderOf, open, counters, now } = this.#options;
    const { client, id } = request;
    const holder = holderOf(client.address);
    if (this.#byId.of(id) >= limits.perId || this.#byAddress.of(holder) >= limits.perAddress) return new Refusal(486);
    const port = this.#byLine.size < limits.total ? this.#takeRelayedPort(isEven) : undefined;
    if (port === undefined) return new Refusal(508);
    const allocation = new Allocation({
      ...request,
      relayed: { address, port },
      open,
      bitsPerSecond: limits.bitsPerSecond,
      counters,
      frame: this.#frame,
      now,
    });
    this.#byLine.set(client, allocation);
    this.#byId.add(id);
    this.#byAddress.add(holder);
    counters.allocationsMade++;
    counters.allocations = this.#byLine.size;
    return allocation;
  }

  release(allocation: Allocation): void {
    const { client, id, relayed } = allocation.options;
    if (!this.#byLine.delete(client)) return;
    allocation.close();
    this.#byId.remove(id);
    this.#byAddress.remove(this.#options.holderOf(client.address));
    this.#relayedPorts.delete(relayed.port);
    this.#options.counters.allocations = this.#byLine.size;
  }

  /** Only a name for the allocation: the sockets to the peers have ports of their own. */
  #takeRelayedPort(isEven: boolean): number | undefined {
    const step = isEven ? 2 : 1;
    const choices = RELAYED_PORTS / step;
    const first = randomInt(choices);
    for (let n = 0; n < choices; n++) {
      const port = FIRST_RELAYED_PORT + ((first + n) % choices) * step;
      if (this.#relayedPorts.has(port)) continue;
      this.#relayedPorts.add(port);
      return port;
    }
    return undefined;
  }
}
