/** The wait that the header `Retry-After` asks for, in seconds or as an HTTP date; null without a valid one. */
export function retryAfterMs({ headers }: Response, now: number, maxMs: number): number | null {
  const text = headers.get("retry-after");
  if (text === null) return null;
  const ms = /^\d+$/.test(text.trim()) ? Number(text) * 1_000 : Date.parse(text) - now;
  return ms > 0 ? Math.min(ms, maxMs) : null;
}
