import { randomInt } from "node:crypto";
import type { Now } from "../../kernel/time/clock.ts";
import { Allocation, newFrame, type RelayCounters } from "./allocation.ts";
import type { TurnUser } from "./authentication.ts";
import { CountByHolder } from "./quota.ts";
import { Refusal, type RefusalCode } from "./refusal.ts";
import type { ClientTransport, OpenRelay } from "./transports.ts";

export type TurnLimits = {
  perId: number;
  perAddress: number;
  total: number;
  bitsPerSecond: number;
};

export type TurnCounters = RelayCounters & {
  allocations: number;
  allocationsMade: number;
  refusals: Partial<Record<RefusalCode, number>>;
};

type Options = {
  limits: TurnLimits;
  open: OpenRelay;
  holderOf: (address: string) => string;
  counters: TurnCounters;
  now: Now;
};

type Request = TurnUser & {
  client: ClientTransport;
  transaction: string;
  address: string;
  isEven: boolean;
};

const FIRST_RELAYED_PORT = 49_152;
const RELAYED_PORTS = 65_536 - FIRST_RELAYED_PORT;

export class Allocations {
  readonly #byClient = new Map<ClientTransport, Allocation>();
  readonly #byId = new CountByHolder();
  readonly #byAddress = new CountByHolder();
  readonly #relayedPorts = new Set<number>();
  readonly #frame = newFrame();

  constructor(private readonly options: Options) {}

  get(client: ClientTransport): Allocation | undefined {
    return this.#byClient.get(client);
  }

  /** A copy, so that the caller may release allocations while iterating. */
  all(): Allocation[] {
    return [...this.#byClient.values()];
  }

  make({ address, isEven, ...request }: Request): Allocation | Refusal {
    const { limits, holderOf, open, counters, now } = this.options;
    const { client, id } = request;
    const holder = holderOf(client.address);
    if (this.#byId.of(id) >= limits.perId || this.#byAddress.of(holder) >= limits.perAddress) return new Refusal(486);
    const port = this.#byClient.size < limits.total ? this.#takeRelayedPort(isEven) : undefined;
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
    this.#byClient.set(client, allocation);
    this.#byId.add(id);
    this.#byAddress.add(holder);
    counters.allocationsMade++;
    counters.allocations = this.#byClient.size;
    return allocation;
  }

  release(allocation: Allocation): void {
    const { client, id, relayed } = allocation.options;
    if (!this.#byClient.delete(client)) return;
    allocation.close();
    this.#byId.remove(id);
    this.#byAddress.remove(this.options.holderOf(client.address));
    this.#relayedPorts.delete(relayed.port);
    this.options.counters.allocations = this.#byClient.size;
  }

  /** The relayed port only identifies the allocation: the sockets to peers have their own ports. */
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
