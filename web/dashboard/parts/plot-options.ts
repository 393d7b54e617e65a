import uPlot from "uplot";
import { countText } from "./numbers.ts";

export type PlotKind = "level" | "counts" | "days";

type PlotOptions = { kind: PlotKind; colours: string[]; height: number; onPoint: (index: number | null) => void };

const DAY_SECONDS = 86_400;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000, 100_000, 1_000_000];

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockWithSeconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const date = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" });
/** The server counts by UTC day; in a local time zone the date could be that of the day before. */
const utcDate = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });

/** The time label above the plot. */
export function timeText(seconds: number, kind: PlotKind): string {
  const moment = new Date(seconds * 1000);
  if (kind === "days") return utcDate.format(moment);
  return `${date.format(moment)}, ${clock.format(moment)}`;
}

function tickText(seconds: number, kind: PlotKind, everySeconds: number): string {
  const moment = new Date(seconds * 1000);
  if (kind === "days") return utcDate.format(moment);
  if (everySeconds < 60) return clockWithSeconds.format(moment);
  const midnight = moment.getHours() === 0 && moment.getMinutes() === 0;
  return midnight || everySeconds >= DAY_SECONDS ? date.format(moment) : clock.format(moment);
}

export function optionsFor(element: HTMLElement, { kind, colours, height, onPoint }: PlotOptions): uPlot.Options {
  const { fontFamily } = getComputedStyle(element);
  // `light-dark()` is resolved only where it is used, so each colour is read from an element.
  const probe = element.appendChild(document.createElement("i"));
  const colourOf = (name: string) => {
    probe.className = name;
    return getComputedStyle(probe).color;
  };
  const axis = { stroke: colourOf("quiet"), font: `12px ${fontFamily}`, ticks: { show: false } };
  const line = colourOf("line");
  const strokes = colours.map(colourOf);
  probe.remove();
  const bars = kind !== "level";
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { y: false, points: { show: !bars, size: 6 }, drag: { x: false, y: false } },
    ...(kind === "days" && { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1000), "UTC") }),
    scales: {
      // Bars are centred on their time, so half a bar is added on each side.
      ...(bars && { x: { range: (plot: uPlot) => widened(plot.data[0]) } }),
      y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.1)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 28,
        space: 64,
        values: (_plot, ticks, _axis, _space, every) => ticks.map((tick) => tickText(tick, kind, every)),
      },
      {
        ...axis,
        grid: { stroke: line, width: 1 },
        size: (_plot, texts) => 16 + 7.5 * Math.max(1, ...(texts ?? []).map(({ length }) => length)),
        incrs: STEPS,
        values: (_plot, ticks) => ticks.map(countText),
      },
    ],
    hooks: { setCursor: [({ cursor }) => onPoint(cursor.idx ?? null)] },
    series: [
      {},
      ...strokes.map((stroke) => ({
        stroke,
        width: bars ? 0 : 2,
        fill: bars ? stroke : stroke.replace("rgb(", "rgba(").replace(")", ", 0.1)"),
        points: { show: false },
        paths: bars ? uPlot.paths.bars?.({ size: [0.7, 40], radius: 0.1 }) : uPlot.paths.stepped?.({ align: 1 }),
      })),
    ],
  };
}

function widened(times: ArrayLike<number>): uPlot.Range.MinMax {
  const first = times[0] ?? 0;
  const last = times[times.length - 1] ?? first;
  const half = times.length > 1 ? (last - first) / (times.length - 1) / 2 : DAY_SECONDS / 2;
  return [first - half, last + half];
}

/** Stacks bars: each series is the sum of itself and the ones after it, which are drawn over it. */
export function stacked(series: number[][]): number[][] {
  return series.map((values, index) =>
    values.map((_, at) => series.slice(index).reduce((sum, one) => sum + (one[at] ?? 0), 0)),
  );
}

/** Repeats the last value, so that the last level also extends to the end of its step. */
export function extended(times: number[], series: number[][]): number[][] {
  const [last = 0, before = 0] = [times.at(-1), times.at(-2)];
  return [[...times, 2 * last - before], ...series.map((values) => [...values, values.at(-1) ?? 0])];
}
