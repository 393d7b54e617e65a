const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** An unknown value is a dash, never a zero. */
export function countText(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 1_000_000 ? whole.format(value) : short.format(value);
}

/** Every digit, where two large numbers are compared. */
export const wholeText = (value: number): string => whole.format(value);

/** `1 endpoint`, `2 endpoints`. */
export function countOf(value: number | null | undefined, noun: string): string {
  return `${countText(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function percentText(share: number | null | undefined): string {
  if (share === null || share === undefined) return "–";
  const percent = share * 100;
  return `${percent >= 10 || Number.isInteger(percent) ? Math.round(percent) : percent.toFixed(1)} %`;
}

const BYTES = ["B", "KB", "MB", "GB", "TB"];

export function bytesText(bytes: number): string {
  const step = bytes < 1 ? 0 : Math.min(BYTES.length - 1, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** step).toFixed(step === 0 ? 0 : 1)} ${BYTES[step]}`;
}

export function bitsText(bitsPerSecond: number | null): string {
  return bitsPerSecond === null ? "–" : `${bytesText(bitsPerSecond).replace("KB", "kB").replace("B", "bit")}/s`;
}
