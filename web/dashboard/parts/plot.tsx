import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { theme } from "../theme.ts";
import { countText } from "./numbers.ts";
import { extended, optionsFor, type PlotKind, stacked, timeText } from "./plot-options.ts";

export type Series = { label: string; values: number[]; colour: "accent" | "cool" | "good" | "bad" };

type PlotProps = {
  label: string;
  /** Unix times in seconds, evenly spaced. */
  times: number[];
  series: Series[];
  /** `level` is a value over time, `counts` are stacked sums per step, `days` are sums per UTC day. */
  kind: PlotKind;
};

const HEIGHT = 180;

/** Values over time, in the colours of the page's light or dark theme. */
export function Plot({ label, times, series, kind }: PlotProps) {
  const frame = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const values = series.map((one) => one.values);
  const data = (kind === "level" ? extended(times, values) : [times, ...stacked(values)]) as uPlot.AlignedData;
  const shape = series.map(({ label: name, colour }) => `${name} ${colour}`).join();
  const idle = values.every((list) => list.every((value) => value === 0));

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const draw = () => {
      drawn.current?.destroy();
      const colours = series.map(({ colour }) => colour);
      const options = optionsFor(element, { kind, colours, height: HEIGHT, onPoint: setPointed });
      drawn.current = new uPlot(options, data, element);
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    // The colours are read when the plot is drawn, so a change of the theme draws it again.
    const unsubscribe = theme.subscribe(draw);
    const resize = new ResizeObserver(() => drawn.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resize.observe(element);
    return () => {
      scheme.removeEventListener("change", draw);
      unsubscribe();
      resize.disconnect();
      drawn.current?.destroy();
      drawn.current = null;
    };
  }, [shape, kind]);
  useEffect(() => {
    drawn.current?.setData(data);
  }, [JSON.stringify(data)]);

  const index = pointed === null ? null : Math.min(pointed, times.length - 1);
  const moment = index === null ? undefined : times[index];
  return (
    <figure class="card plot">
      <figcaption>
        <b>{label}</b>
        <span class="legend">
          {moment !== undefined && <time>{timeText(moment, kind)}</time>}
          {series.map(({ label: name, colour, values: own }) => (
            <span key={name} class={colour}>
              {name}
              {index !== null && <b> {countText(own[index])}</b>}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={frame} role="img" aria-label={spoken(label, series)}>
        {idle && <p class="quiet small">No data in this period.</p>}
      </div>
    </figure>
  );
}

/** The text alternative for screen readers: the last and the largest value. */
function spoken(label: string, series: Series[]): string {
  const parts = series.map(({ label: name, values }) => {
    const last = values.at(-1);
    return last === undefined
      ? `${name}: no data`
      : `${name}: now ${countText(last)}, at most ${countText(Math.max(...values))}`;
  });
  return `${label}. ${parts.join("; ")}`;
}
