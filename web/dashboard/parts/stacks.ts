/** Bars on top of each other: each series is drawn with those after it, and they are then drawn over it. */
export function stacked(series: number[][]): number[][] {
  return series.map((values, index) =>
    values.map((_, at) => series.slice(index).reduce((sum, one) => sum + (one[at] ?? 0), 0)),
  );
}

/** A level lasts until the end of its step: the last one as well, which has no next to be drawn up to. */
export function lasting(times: number[], series: number[][]): number[][] {
  const [last = 0, before = 0] = [times.at(-1), times.at(-2)];
  return [[...times, 2 * last - before], ...series.map((values) => [...values, values.at(-1) ?? 0])];
}
