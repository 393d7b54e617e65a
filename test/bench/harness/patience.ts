export const PATIENCE_MS = 120_000;

/** A client that never comes must not hold up a bench: it ends, and says what it waited for. */
export async function within<Result>(
  what: string,
  work: Promise<Result>,
  patienceMs: number = PATIENCE_MS,
): Promise<Result> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`${what}: not within ${patienceMs / 1_000} s`)), patienceMs);
  return Promise.race([work, late.promise]).finally(() => clearTimeout(timer));
}
