import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { countText } from "./numbers.ts";
import { optionsFor, type PlotKind, timeText } from "./plot-options.ts";
import { lasting, stacked } from "./stacks.ts";

export type Series = { label: string; values: number[]; colour: "accent" | "cool" | "good" | "bad" };

type PlotProps = {
  label: string;
  /** Seconds since 1970, evenly spaced. */
  times: number[];
  series: Series[];
  /** `level`: how many at a time. `counts`: how many in each step, on top of each other. `days`: counts by UTC day. */
  kind: PlotKind;
};

const HEIGHT = 180;

/** Values over time. The colours are those of the page, read again when the system turns dark or light. */
export function Plot({ label, times, series, kind }: PlotProps) {
  const frame = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const values = series.map((one) => one.values);
  const data = (kind === "level" ? lasting(times, values) : [times, ...stacked(values)]) as uPlot.AlignedData;
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
    draw();
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    const resize = new ResizeObserver(() => drawn.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resize.observe(element);
    return () => {
      scheme.removeEventListener("change", draw);
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
        {idle && <p class="quiet small">Nothing in this time.</p>}
      </div>
    </figure>
  );
}

/** A picture says nothing to who cannot see it: the last and the largest value do. */
function spoken(label: string, series: Series[]): string {
  const parts = series.map(({ label: name, values }) => {
    const last = values.at(-1);
    return last === undefined
      ? `${name}: no data`
      : `${name}: now ${countText(last)}, at most ${countText(Math.max(...values))}`;
  });
  return `${label}. ${parts.join("; ")}`;
}
