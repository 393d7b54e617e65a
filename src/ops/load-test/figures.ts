export type Percentiles = { p50: number | null; p95: number | null; p99: number | null };

export function percentiles(values: readonly number[]): Percentiles {
  const sorted = Float64Array.from(values).sort();
  const at = (part: number) => sorted[Math.floor(sorted.length * part)] ?? null;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

/** Counts by name. */
export class Tally {
  readonly counts: Record<string, number> = {};

  add(name: string): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}

/** The code of an error, or its message. */
export function causeOf(error: unknown): string {
  return (error as { code?: string }).code ?? (error as Error).message;
}

export function within<T>(timeoutMs: number, work: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error("TIMEOUT")), timeoutMs);
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
