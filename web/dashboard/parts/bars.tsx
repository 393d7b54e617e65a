import { percentText } from "./numbers.ts";

type MeterProps = { label: string; value: number | null; of?: number; text?: string };

/** A fill level that turns to a warning at 75 % and to an alarm at 90 %. */
export function Meter({ label, value, of = 100, text }: MeterProps) {
  const share = value === null ? 0 : Math.min(1, value / of);
  const tone = share >= 0.9 ? "bad" : share >= 0.75 ? "warn" : "good";
  const shown = text ?? (value === null ? "–" : percentText(share));
  return (
    <div class="meter">
      <span>{label}</span>
      <span class="quiet">{shown}</span>
      <div class="bar" aria-hidden="true">
        <div class={tone} style={{ width: `${share * 100}%` }} />
      </div>
    </div>
  );
}

type Bar = { id: string; label: string; value: number; text: string; chosen?: boolean; onChoose?: () => void };

/** Horizontal bars relative to the largest value. */
export function Bars({ label, bars }: { label: string; bars: readonly Bar[] }) {
  const most = Math.max(1, ...bars.map(({ value }) => value));
  return (
    <ul class="bars" aria-label={label}>
      {bars.map(({ id, label: name, value, text, chosen, onChoose }) => {
        const inside = (
          <>
            <span>{name}</span>
            <span class="bar">
              <span style={{ width: `${(value / most) * 100}%` }} />
            </span>
            <span class="number">{text}</span>
          </>
        );
        return (
          <li key={id}>
            {onChoose ? (
              <button type="button" aria-pressed={chosen ?? false} onClick={onChoose}>
                {inside}
              </button>
            ) : (
              <div>{inside}</div>
            )}
          </li>
        );
      })}
    </ul>
  );
}

const RADIUS = 42;
const ROUND = 2 * Math.PI * RADIUS;

/** A fraction, drawn as a ring. */
export function Ring({ label, share, children }: { label: string; share: number; children: string }) {
  const tone = share >= 1 ? "bad" : share >= 0.8 ? "warn" : "good";
  return (
    <svg class="ring" viewBox="0 0 100 100" role="img" aria-label={label}>
      <circle cx="50" cy="50" r={RADIUS} />
      <circle class={tone} cx="50" cy="50" r={RADIUS} stroke-dasharray={`${Math.min(1, share) * ROUND} ${ROUND}`} />
      <text x="50" y="50">
        {children}
      </text>
    </svg>
  );
}
