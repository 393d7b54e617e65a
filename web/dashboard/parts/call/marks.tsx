import { durationText } from "../time.tsx";

const TICKS = [0, 0.25, 0.5, 0.75, 1];

/** One place on a time line where something happened, once or more often; it leads to the words about the first. */
export function Mark({ kind, href, left, told }: { kind: string; href: string; left: string; told: string[] }) {
  return (
    <a class={`mark ${kind}`} href={href} style={{ left }} title={told.join("\n")}>
      <span class="hidden">{told.join("; ")}</span>
      {told.length > 1 && <b aria-hidden="true">{told.length}</b>}
    </a>
  );
}

/** How long after its beginning each quarter of a time line is. */
export function TimeAxis({ spanMs }: { spanMs: number }) {
  return (
    <div class="axis" aria-hidden="true">
      {TICKS.map((share) => (
        <span key={share} style={{ left: `${share * 100}%` }}>
          {durationText(spanMs * share)}
        </span>
      ))}
    </div>
  );
}
