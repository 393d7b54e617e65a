import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

export type Series = { label: string; values: (number | null)[]; colour: "accent" | "good" | "bad" | "warn" };

type PlotProps = {
  label: string;
  /** Seconds since 1970. */
  times: number[];
  series: Series[];
  /** One bar for each day. */
  bars?: boolean;
  format?: (value: number) => string;
};

const HEIGHT = 180;
const HALF_DAY = 43_200;

/** Values over time. The colours are those of the page, read again when the system turns dark or light. */
export function Plot({ label, times, series, bars = false, format = String }: PlotProps) {
  const frame = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | null>(null);
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData;
  const shape = series.map(({ label: name, colour }) => `${name} ${colour}`).join();

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const draw = () => {
      drawn.current?.destroy();
      drawn.current = new uPlot(optionsFor(element, series, bars, format), data, element);
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
  }, [shape, bars]);
  useEffect(() => drawn.current?.setData(data), [JSON.stringify(data)]);

  return (
    <figure class="card plot">
      <figcaption>
        <b>{label}</b>
        <span class="legend">
          {series.map(({ label: name, colour }) => (
            <span key={name} class={colour}>
              {name}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={frame} role="img" aria-label={spoken(label, series, format)} />
    </figure>
  );
}

/** A picture says nothing to who cannot see it: the last and the largest value do. */
function spoken(label: string, series: Series[], format: (value: number) => string): string {
  const parts = series.map(({ label: name, values }) => {
    const known = values.filter((value) => value !== null);
    const last = known.at(-1);
    return last === undefined
      ? `${name}: no data`
      : `${name}: now ${format(last)}, at most ${format(Math.max(...known))}`;
  });
  return `${label}. ${parts.join("; ")}`;
}

function optionsFor(
  element: HTMLElement,
  series: Series[],
  bars: boolean,
  format: (value: number) => string,
): uPlot.Options {
  const style = getComputedStyle(element);
  // `light-dark()` is resolved only where a colour is used, so each one is asked for by an element that uses it.
  const probe = element.appendChild(document.createElement("i"));
  const colourOf = (name: string) => {
    probe.className = name;
    return getComputedStyle(probe).color;
  };
  const quiet = colourOf("quiet");
  const line = colourOf("line");
  const colours = series.map(({ colour }) => colourOf(colour));
  probe.remove();
  const axis = {
    stroke: quiet,
    font: `12px ${style.fontFamily}`,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: {
      // A bar stands on its time with half of its width to each side.
      ...(bars && {
        x: {
          range: (_plot: uPlot, low: number, high: number) => [low - HALF_DAY, high + HALF_DAY] as uPlot.Range.MinMax,
        },
      }),
      y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.1)] },
    },
    axes: [
      axis,
      {
        ...axis,
        size: 46,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000],
        values: (_plot, ticks) => ticks.map(format),
      },
    ],
    series: [
      {},
      ...series.map(({ label }, index) => ({
        label,
        stroke: colours[index],
        width: bars ? 0 : 2,
        fill: bars ? colours[index] : undefined,
        points: { show: false },
        ...(bars && { paths: uPlot.paths.bars?.({ size: [0.7, 40], radius: 0.15 }) }),
      })),
    ],
  };
}
