import { durationText } from "../time.tsx";

const TICKS = [0, 0.25, 0.5, 0.75, 1];

/** A mark on a timeline for one or more events; it links to the text of the first. */
export function Mark({ kind, href, left, texts }: { kind: string; href: string; left: string; texts: string[] }) {
  return (
    <a class={`mark ${kind}`} href={href} style={{ left }} title={texts.join("\n")}>
      <span class="hidden">{texts.join("; ")}</span>
      {texts.length > 1 && <b aria-hidden="true">{texts.length}</b>}
    </a>
  );
}

/** The time axis with a label at each quarter. */
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
