import type { RtcServerStatus } from "../../protocol/enums.ts";

/** A node in the form that the allocator uses. A node without heartbeats so far (null) counts as idle. */
export type Candidate = {
  name: string;
  region: string;
  status: RtcServerStatus;
  capacity: number | null;
  rooms: number;
  participants: number | null;
  cpuPercent: number | null;
  memoryPercent: number | null;
};

/** A node above this load is the last choice in any region: a distant node is better than an overloaded one. */
const OVERLOADED_CPU_PERCENT = 90;
const OVERLOADED_MEMORY_PERCENT = 95;

/**
 * Nodes that can accept another room, best first: not overloaded, in the requested region, least loaded, fewest
 * participants, and then by name, so that the result is deterministic.
 */
export function allocate<C extends Candidate>(candidates: readonly C[], region: string): C[] {
  const keys = (node: C) => [
    Number(isOverloaded(node)),
    Number(node.region !== region),
    loadOf(node),
    node.participants ?? 0,
    node.rooms,
  ];
  return candidates
    .filter((node) => node.status === "HEALTHY" && (node.capacity === null || node.rooms < node.capacity))
    .map((node) => ({ node, keys: keys(node) }))
    .sort((a, b) => compare(a.keys, b.keys) || (a.node.name < b.node.name ? -1 : 1))
    .map(({ node }) => node);
}

export function isOverloaded({ cpuPercent, memoryPercent }: Pick<Candidate, "cpuPercent" | "memoryPercent">): boolean {
  return (cpuPercent ?? 0) >= OVERLOADED_CPU_PERCENT || (memoryPercent ?? 0) >= OVERLOADED_MEMORY_PERCENT;
}

/**
 * The load is rounded to tenths, because smaller differences are noise and the number of participants is more
 * significant.
 */
function loadOf({ cpuPercent, capacity, rooms }: Candidate): number {
  const busy = (cpuPercent ?? 0) / 100;
  const full = capacity === null ? 0 : rooms / capacity;
  return Math.floor(Math.max(busy, full) * 10);
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, i) => value !== b[i]);
  return at < 0 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}
