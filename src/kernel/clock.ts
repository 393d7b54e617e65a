/** Integer milliseconds since the epoch. Injected everywhere, so that a test can move time. */
export type Now = () => number;

export const systemNow: Now = () => Date.now();

export function iso(at: number): string;
export function iso(at: number | null): string | null;
export function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}
