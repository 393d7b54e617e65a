const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
];

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** "3 minutes ago", with the exact time on hover. */
export function Ago({ at }: { at: string | null }) {
  if (at === null) return <span class="quiet">never</span>;
  const difference = Date.parse(at) - Date.now();
  const [unit, size] = UNITS.find(([, ms]) => Math.abs(difference) >= ms) ?? ["second", 1_000];
  return (
    <time dateTime={at} title={exact.format(new Date(at))}>
      {relative.format(Math.round(difference / size), unit)}
    </time>
  );
}

export function durationText(ms: number | null): string {
  if (ms === null) return "–";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
}

/** The start of a local day (`2026-11-18`), or of one some days later, as a timestamp. */
export function localDay(day: string, daysLater = 0): string {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  return new Date(year, month - 1, date + daysLater).toISOString();
}

/** A time in the format of a `datetime-local` input, in the local time zone. */
export function localInput(date: Date): string {
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 16);
}
