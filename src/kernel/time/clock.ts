export const DAY_MS = 24 * 3_600_000;

/** Integer milliseconds since the epoch. The clock is injected, so that a test controls the time. */
export type Now = () => number;

export const systemNow: Now = () => Date.now();

// The same time is often formatted several times: for a message, its event and its webhook.
let last = { at: Number.NaN, text: "" };

export function iso(at: number): string;
export function iso(at: number | null): string | null;
export function iso(at: number | null): string | null {
  if (at === null) return null;
  if (at !== last.at) last = { at, text: new Date(at).toISOString() };
  return last.text;
}
