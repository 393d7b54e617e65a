import type { RefusalCode } from "./refusal.ts";

/** Since the start, of all relays together. */
export type RelayCounters = {
  packetsIn: number;
  packetsOut: number;
  bytesIn: number;
  bytesOut: number;
  /** Over the budget, or the client too slow. */
  dropped: number;
};

export type TurnCounters = RelayCounters & {
  /** Now. */
  allocations: number;
  allocationsMade: number;
  refusals: Partial<Record<RefusalCode, number>>;
};
