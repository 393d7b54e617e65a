/** Integer milliseconds since the epoch. Injected everywhere, so that a test can move time. */
export type Now = () => number;

export const systemNow: Now = () => Date.now();

// One moment is told several times: in a message, in its event, and in those that came with it.
let last = { at: Number.NaN, text: "" };

export function iso(at: number): string;
export function iso(at: number | null): string | null;
export function iso(at: number | null): string | null {
  if (at === null) return null;
  if (at !== last.at) last = { at, text: new Date(at).toISOString() };
  return last.text;
}
